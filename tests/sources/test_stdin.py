"""Standard input is a stream of its own: files of the working folder are not part of it."""

from __future__ import annotations

import os

import lowwater as lw
from lowwater.sources.stdin import StdinSource


def test_before_it_is_read_standard_input_has_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"x": 1}\n')
    (tmp_path / "mine.parquet").write_bytes(b"")
    source = StdinSource("", lw.feed("x int").schema, "json")
    assert source.available("zzz") == "zzz"
    assert source.names("") == []
    assert source.bounded().until == ""
    assert mine.exists()


def test_lines_are_spooled_to_the_folder_of_the_checkpoint(tmp_path):
    read, write = os.pipe()
    os.write(write, b'{"x": 2}\n')
    os.close(write)
    source = StdinSource("", lw.feed("x int").schema, descriptor=read, first=b'{"x": 1}\n')
    spool, rows = source.prepare(str(tmp_path / "spool")), []
    at, last = spool.begin(), False
    while not last:
        end = spool.available(at)
        blocks, at = spool.blocks(at, end), end
        rows += [x for b in blocks for x in spool.read(b)["x"].to_pylist()]
        last = any(b.last for b in blocks)
    os.close(read)
    assert rows == [1, 2]
