"""Damaged files and failed starts are errors of Lowwater that name the file, never bare ones."""

from __future__ import annotations

import random

import pytest

import lowwater as lw
from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.entry import Positions
from lowwater.engine.failure import failure_of
from lowwater.engine.savepoint import read_savepoint, write_savepoint
from lowwater.engine.spark_folder import check_offsets
from tests.wait import wait_until

DAMAGED = [b"3", b"[1]", b"null", b"{", b"\xff"]


def counted(feed):
    return lw.stream(feed, time="t", watermark=lw.ordered()).window(range=5).agg(n=lw.count())


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_owner_of_a_folder_is_named(tmp_path, content):
    feed = lw.feed("t bigint")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".lowwater").write_bytes(content)
    with pytest.raises(lw.SinkError, match=r"\.lowwater is damaged .* delete it"):
        counted(feed).run(epochs={feed: [[(1,)]]}, sink=lw.to_json(tmp_path / "out"))


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_description_of_a_checkpoint_is_named(tmp_path, content):
    (tmp_path / "lowwater.json").write_bytes(content)
    with pytest.raises(lw.StateError, match=r"lowwater\.json is damaged"):
        Checkpoint.at(str(tmp_path)).stored()


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("savepoint")
    (folder / "in").mkdir()
    (folder / "in" / "0.csv").write_text("t\n1\n2\n")
    source = lw.files(folder / "in", format="csv", schema="t bigint")
    run = counted(source).start(host="local", sink=lw.to_memory(), checkpoint=str(folder / "c"))
    wait_until(lambda: run.status()["in"] == 2)
    run.stop()
    write_savepoint(str(folder / "c"), folder / "s.zip")
    return (folder / "s.zip").read_bytes()


def test_a_savepoint_with_any_altered_byte_is_whole_or_refused(tmp_path, savepoint):
    draw, refused = random.Random(3), []
    # The end of the archive is its directory, where each byte has a meaning of its own.
    places = [*range(len(savepoint) - 400, len(savepoint)), *draw.sample(range(len(savepoint)), 99)]
    for number, place in enumerate(places):
        content = bytearray(savepoint)
        content[place] ^= 1 << draw.randrange(8)
        (tmp_path / "s.zip").write_bytes(bytes(content))
        try:
            read_savepoint(tmp_path / "s.zip", str(tmp_path / str(number)))
        except lw.StateError as problem:
            refused.append(str(problem))
    assert len(refused) > len(places) / 2
    assert all("s.zip' is not an intact savepoint" in text for text in refused)


@pytest.mark.parametrize("content", [b"v1\n{}\n{", b'v1\n{}\n{"logOffset": []}', b"\xff"])
def test_damaged_offsets_of_spark_are_named(tmp_path, content):
    (tmp_path / "spark" / "a" / "offsets").mkdir(parents=True)
    (tmp_path / "spark" / "a" / "offsets" / "4").write_bytes(content)
    with pytest.raises(lw.StateError, match="offsets/4, or a log of a file source"):
        check_offsets(Checkpoint.at(str(tmp_path)), Positions({}, 4, "sum"))


def test_a_checkpoint_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "file").write_text("")
    source = lw.files(tmp_path / "in", format="csv", schema="t bigint")
    with pytest.raises(lw.HostError, match=r"the query failed: NotADirectoryError: .*file"):
        counted(source).start(
            host="local", sink=lw.to_memory(), checkpoint=str(tmp_path / "file" / "c")
        )


UNREADABLE = """\
py4j.protocol.Py4JJavaError: An error occurred while calling o8.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE] It is a.parquet. SQLSTATE: KD001
\tat org.apache.spark.X
Caused by: java.lang.RuntimeException: a.parquet is not a Parquet file
"""
STOPPED = """\
py4j.protocol.Py4JJavaError: An error occurred while calling o8.start.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (UNREADABLE, "Spark: [FAILED_READ_FILE] It is a.parquet."),
        (STOPPED, "Spark: Cannot call methods on a stopped SparkContext."),
    ],
)
def test_the_cause_of_an_error_of_spark_is_its_message(text, cause):
    assert failure_of(RuntimeError(text)).cause == cause
