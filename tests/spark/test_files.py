"""lw.files on Spark: lines and files that cannot be read, files with older names, restarts."""

from __future__ import annotations

import pytest

import lowwater as lw
from tests.wait import wait_until


def query(folder, **more):
    source = lw.files(folder, format="csv", schema="t bigint, x double", **more)
    return lw.stream(source, time="t", watermark=lw.slack(5)).window(range=10).agg(n=lw.count())


def test_lines_and_files_that_cannot_be_read_are_outputs_as_on_the_local_host(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "m.csv").write_text('t,x\n1,2\n2\n3,"4\n,5\n6,7\n')
    (folder / "n.csv.gz").write_bytes(b"not gzip")
    here, there = query(folder).run(host="local"), query(folder).run(host="spark")
    assert there.malformed.equals(here.malformed)
    assert there.malformed["text"].to_pylist() == ["2", '3,"4', ",5"]
    assert there.bad_files.equals(here.bad_files)
    assert there.status.counts == here.status.counts
    assert there.status.bad_files == 1
    with pytest.raises(lw.HostError, match=rf"^{folder}/n\.csv\.gz: .*on_bad_file='fail'"):
        query(folder, on_bad_file="fail").run(host="spark")


def test_a_restarted_query_takes_files_with_older_names_and_no_file_twice(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "m.csv").write_text("t,x\n1,2\n")

    def start():
        sinks = {"sink": lw.to_memory(), "bad_files": lw.to_memory()}
        return query(folder).start(**sinks, checkpoint=str(tmp_path / "c"))

    run = start()
    wait_until(lambda: run.status()["in"] == 1)
    (folder / "a.csv").write_text("t,x\n2,2\n")
    wait_until(lambda: run.status()["in"] == 2)
    run.stop()
    (folder / "b.csv").write_text("t,x\n3,2\n")
    (folder / "a.csv").write_text("t,x\n2,2\n4,4\n")
    run = start()
    wait_until(lambda: run.status()["in"] == 3 and run.status().bad_files == 1)
    run.stop()
    assert run.status()["admitted"] == 3
