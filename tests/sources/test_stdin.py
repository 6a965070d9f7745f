"""Standard input is a stream of its own: files of the working folder are not part of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lowwater as lw
from lowwater.engine.savepoint import read_savepoint, write_savepoint
from lowwater.sources import stdin
from lowwater.sources.stdin import StdinSource
from tests.wait import wait_until


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


@pytest.mark.parametrize("fault", ["missing", "altered", "swapped", "cut"])
def test_a_spooled_file_that_is_missing_or_altered_is_named(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(stdin, "_FILE_BYTES", 1)
    read, write = os.pipe()
    lines = [f'{{"x": {n}}}\n'.encode() for n in range(4)]
    source = StdinSource("", lw.feed("x int").schema, descriptor=read)
    spool = source.prepare(str(tmp_path))
    for n, line in enumerate(lines):
        os.write(write, line)
        wait_until(lambda n=n: len(spool.names("")) == n + 1)
    end = spool.available("")
    files = [Path(b.what) for b in spool.blocks("", end)]
    assert [spool.read(b)["x"].to_pylist() for b in spool.blocks("", end)] == [[0], [1], [2], [3]]
    if fault == "missing":
        files[1].unlink()
    elif fault == "cut":
        files[1].write_bytes(b"")
    else:
        files[1].write_bytes(lines[2] if fault == "swapped" else lines[1].replace(b"1", b"5"))
    for start in ("", files[0].name):
        with pytest.raises(lw.StateError, match=files[0 if fault == "missing" else 1].name):
            [spool.read(block) for block in spool.blocks(start, end)]
    os.close(write)
    os.close(read)


def test_an_imported_query_reads_on_from_a_new_pipe(tmp_path):
    def read_all(checkpoint, xs, total):
        read, write = os.pipe()
        source = StdinSource("", lw.feed("x int").schema, descriptor=read)
        stream = lw.stream(source, time="x", watermark=lw.ordered())
        query = stream.window(range=10).agg(n=lw.count())
        run = query.start(host="local", sink=lw.to_memory(), checkpoint=str(tmp_path / checkpoint))
        for x in xs:
            before = run.status()["in"]
            os.write(write, f'{{"x": {x}}}\n'.encode())
            wait_until(lambda before=before: run.status()["in"] == before + 1)
        run.stop()
        os.close(write)
        os.close(read)
        assert run.status()["in"] == total

    read_all("c", [1, 2, 3], 3)
    write_savepoint(str(tmp_path / "c"), tmp_path / "s.zip")
    read_savepoint(tmp_path / "s.zip", str(tmp_path / "copy"))
    read_all("copy", [4, 5], 5)
