"""A row that stops the query: the rows of its epoch are set aside, and the query goes on."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.cli.app import main
from lowwater.engine.savepoint import read_savepoint
from lowwater.engine.verify import verify
from tests.wait import wait_until

#  file   0        1                  2        3
#  rows   t 0..9   t 10..19, x = 13   t 20..29 t 30..39       one file per epoch, windows of 10
FILES, ROWS, BAD = 4, 10, 1
REASON = "set aside on purpose"


def picky(x):
    if x == 13:
        raise ArithmeticError("thirteen")
    return x


def rows_of(file):
    return [(t, t % 3, t) for t in range(ROWS * file, ROWS * (file + 1))]


def write_csv(folder, files=range(FILES)):
    folder.mkdir(parents=True)
    for file in files:
        lines = "".join(f"{t},{k},{x}\n" for t, k, x in rows_of(file))
        (folder / f"{file}.csv").write_text(f"t,k,x\n{lines}")


def query(folder, lift=picky, **options):
    read = lw.files(
        folder, format="csv", schema="t bigint, k int, x int", files_per_epoch=1, **options
    )
    adder = lw.aggregate(
        "x", lift=lift, combine=lambda a, b: a + b, lower=lambda a: a, returns="bigint"
    )
    stream = lw.stream(read, time="t", watermark=lw.ordered()).with_columns(y="x + 1")
    return stream.where("x >= 0").window(range=10).group_by("k").agg(n=lw.count(), s=adder)


def start(of, folder, **more):
    sinks = {name: lw.to_memory() for name in ("sink", "malformed", "bad_files")}
    run = of.start(host="local", checkpoint=str(folder), **sinks, **more)
    return run, sinks


def rows_in(sink):
    return [row for epoch in sorted(sink.epochs) for row in sink.epochs[epoch].to_pylist()]


def fail(of, folder, **more):
    with pytest.raises(lw.HostError) as failed:
        start(of, folder, **more)[0].wait(30)
    return str(failed.value)


def finish(of, folder, rows):
    run, sinks = start(of, folder)
    wait_until(lambda: run.status()["in"] == rows and run.newest.quiet)
    status = run.status()
    run.stop()
    return status, sinks


def said(capfd, *arguments, code=0):
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    assert ended.value.code == code
    out = capfd.readouterr()
    return " ".join((out.out + out.err).split())


def test_a_row_that_stops_the_query_is_named_and_its_epoch_set_aside(tmp_path, capfd):
    write_csv(tmp_path / "in")
    checkpoint, of = tmp_path / "c", query(tmp_path / "in")
    rule = lw.restart(times=50, pause="1 millisecond")
    text = fail(of, checkpoint, restart=rule)
    assert f"epoch {BAD} failed in a row with x = 13, file {tmp_path}/in/{BAD}.csv" in text
    assert "ArithmeticError: thirteen" in text
    assert f"lowwater state CHECKPOINT --set-aside {BAD}" in text
    assert "restarted 2 times; epoch 1 failed 3 times for the same reason" in text
    assert "malformed" in said(capfd, "state", checkpoint, "--set-aside", BAD)
    shown = said(capfd, "state", checkpoint)
    assert "1 had begun, and runs again when the query resumes, with its rows set aside" in shown
    assert not list(verify(str(checkpoint)))

    status, sinks = finish(of, checkpoint, FILES * ROWS)
    assert status.balanced
    assert (status["malformed"], status["admitted"]) == (ROWS, (FILES - 1) * ROWS)
    malformed = rows_in(sinks["malformed"])
    assert [row["text"] for row in malformed] == [f"{t},{k},{x}" for t, k, x in rows_of(BAD)]
    assert {row["reason"] for row in malformed} == {REASON}
    assert {row["x"] for row in malformed} == {None}

    write_csv(tmp_path / "without", files=[f for f in range(FILES) if f != BAD])
    other = query(tmp_path / "without")
    alone = lw.to_memory()
    run = other.start(host="local", checkpoint=str(tmp_path / "alone"), sink=alone)
    wait_until(lambda: run.status()["in"] == (FILES - 1) * ROWS and run.newest.quiet)
    run.stop()
    assert rows_in(sinks["sink"]) == rows_in(alone)


def test_a_checkpoint_with_a_set_aside_epoch_is_rewound_and_exported(tmp_path, capfd):
    write_csv(tmp_path / "in")
    checkpoint, of = tmp_path / "c", query(tmp_path / "in")
    fail(of, checkpoint)
    said(capfd, "state", checkpoint, "--set-aside", BAD)
    text = said(capfd, "state", checkpoint, "--export", tmp_path / "early.zip")
    assert f"does not hold that the rows of epoch {BAD} are set aside" in text
    assert read_savepoint(tmp_path / "early.zip", str(tmp_path / "early")) == BAD - 1
    finish(of, checkpoint, FILES * ROWS)
    assert not list(verify(str(checkpoint)))
    said(capfd, "state", checkpoint, "--rewind", 0)
    assert f"--set-aside {BAD}" in fail(of, checkpoint), "a rewind brings the rows back"


def test_only_the_interrupted_epoch_can_be_set_aside(tmp_path, capfd):
    write_csv(tmp_path / "in")
    checkpoint = tmp_path / "c"
    assert "is not a checkpoint" in said(capfd, "state", tmp_path / "x", "--set-aside", 1, code=2)
    fail(query(tmp_path / "in"), checkpoint)
    text = said(capfd, "state", checkpoint, "--set-aside", 7, code=2)
    assert "that is epoch 1; write --set-aside 1" in text
    said(capfd, "state", checkpoint, "--set-aside", BAD)
    again = said(capfd, "state", checkpoint, "--set-aside", BAD, code=2)
    assert "set aside already; start the query" in again
    finish(query(tmp_path / "in"), checkpoint, FILES * ROWS)
    ended = said(capfd, "state", checkpoint, "--set-aside", BAD, code=2)
    assert "no epoch of this checkpoint was interrupted" in ended


def test_rows_of_parquet_are_set_aside_as_json(tmp_path, capfd):
    (tmp_path / "in").mkdir()
    for file in range(FILES):
        t, k, x = zip(*rows_of(file), strict=True)
        schema = pa.schema([pa.field("t", pa.int64(), nullable=False), ("k", pa.int32())])
        table = pa.table([t, k], schema=schema).append_column("x", pa.array(x, pa.int32()))
        pq.write_table(table, tmp_path / "in" / f"{file}.parquet")
    adder = lw.aggregate("x", lift=picky, combine=max, lower=int, returns="bigint")
    read = lw.files(tmp_path / "in", files_per_epoch=1)
    stream = lw.stream(read, time="t", watermark=lw.ordered())
    of, checkpoint = stream.window(range=10).agg(s=adder), tmp_path / "c"
    fail(of, checkpoint)
    said(capfd, "state", checkpoint, "--set-aside", BAD)
    sink = lw.to_parquet(tmp_path / "malformed")
    run = of.start(host="local", sink=lw.to_memory(), malformed=sink, checkpoint=str(checkpoint))
    wait_until(lambda: run.wait(0) or run.status()["in"] == FILES * ROWS)
    run.stop()
    texts = pq.read_table(tmp_path / "malformed")["text"].to_pylist()
    assert [tuple(json.loads(text).values()) for text in texts] == rows_of(BAD)


def test_a_damaged_file_of_a_set_aside_epoch_is_reported(tmp_path, capfd):
    write_csv(tmp_path / "in")
    (tmp_path / "in" / "1.csv").unlink()
    (tmp_path / "in" / "1.csv.gz").write_bytes(gzip.compress(b"t,k,x\n11,1,1\n")[:-4])
    of, checkpoint = query(tmp_path / "in", on_bad_file="fail"), tmp_path / "c"
    assert "not a whole gzip file" in fail(of, checkpoint)
    said(capfd, "state", checkpoint, "--set-aside", BAD)
    status, sinks = finish(of, checkpoint, (FILES - 1) * ROWS)
    assert status.bad_files == 1
    (bad,) = rows_in(sinks["bad_files"])
    assert bad["path"].endswith("1.csv.gz")


def test_a_failure_without_rows_is_not_blamed_on_the_rows(tmp_path, capfd):
    #  a window fails when it closes, in the epoch after its rows
    write_csv(tmp_path / "in")

    def refuse(_):
        raise ArithmeticError("never")

    read = lw.files(
        tmp_path / "in", format="csv", schema="t bigint, k int, x int", files_per_epoch=1
    )
    stream = lw.stream(read, time="t", watermark=lw.ordered())
    adder = lw.aggregate("x", lift=int, combine=max, lower=refuse, returns="bigint")
    of, checkpoint = stream.window(range=10).agg(s=adder), tmp_path / "c"
    text = fail(of, checkpoint)
    epoch = int(text.split("--set-aside ")[1].split()[0].rstrip("."))
    said(capfd, "state", checkpoint, "--set-aside", epoch)
    again = fail(of, checkpoint)
    assert "Its rows are set aside, so the cause is in earlier rows" in again
    assert "--rewind" in again
    assert "--set-aside" not in again


def test_a_file_of_the_interrupted_epoch_that_is_gone_is_reported(tmp_path, capfd):
    write_csv(tmp_path / "in")
    of, checkpoint = query(tmp_path / "in"), tmp_path / "c"
    fail(of, checkpoint)
    (tmp_path / "in" / f"{BAD}.csv").unlink()
    assert "is gone; restore it, or go on without it: lowwater state" in fail(of, checkpoint)
    said(capfd, "state", checkpoint, "--set-aside", BAD)
    status, sinks = finish(of, checkpoint, (FILES - 1) * ROWS)
    assert (status.bad_files, status["malformed"]) == (1, 0)
    assert [row["path"] for row in rows_in(sinks["bad_files"])] == [f"{tmp_path}/in/{BAD}.csv"]
