"""A checkpoint that proves itself: damage, rewinds, savepoints, owners of outputs."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress

import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.cli.app import main
from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.log import KEPT_EPOCHS
from lowwater.engine.state_store import StateFolder
from lowwater.engine.verify import verify
from lowwater.sources import taken_files
from tests.local.victim import query, write_files
from tests.spark.streams import ordered_rows
from tests.wait import wait_until


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    write_files(folder)
    ran(folder)
    return folder


@pytest.fixture
def stream(original, tmp_path):
    """Thirty files, of which a query has read all; its checkpoint is `c`, its results `out`."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return tmp_path


def ran(folder, checkpoint="c", out="out", **options):
    sink = lw.to_parquet(folder / out, existing=options.pop("existing", None))
    made = query(folder)
    return made.run(host="local", sink=sink, checkpoint=str(folder / checkpoint), **options)


def rows(folder):
    return {
        path.name.rpartition("-")[0]: ordered_rows(pq.read_table(path))
        for path in sorted(folder.glob("*.parquet"))
    }


def command(capfd, *arguments, code=0):
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    assert ended.value.code == code
    return capfd.readouterr()


# -- damage ----------------------------------------------------------------------------------------


def test_an_intact_checkpoint_is_intact(stream, capfd):
    assert "intact" in command(capfd, "state", stream / "c", "--verify").out


def test_verify_names_each_damaged_file(stream, capfd):
    chosen = random.Random(3)
    for path in chosen.sample(sorted(p for p in (stream / "c").rglob("*") if p.is_file()), 12):
        content = path.read_bytes()
        damaged = bytearray(content)
        damaged[len(damaged) // 2] ^= 4
        path.write_bytes(damaged)
        found = command(capfd, "state", stream / "c", "--verify", code=1).out
        assert path.name in found
        path.write_bytes(content)
    assert not list(verify(str(stream / "c")))


@pytest.mark.parametrize("lost", ["state", "newest segment", "records", "entry", "lowwater.json"])
def test_what_is_lost_is_named_and_nothing_is_written(stream, lost):
    calm, folder = rows(stream / "out"), stream / "c"
    records = sorted((folder / "control").iterdir())
    if lost == "state":
        shutil.rmtree(folder / "state")
    elif lost == "newest segment":
        max(folder.rglob("*.segment"), key=lambda p: p.name).unlink()
    elif lost == "records":
        for record in records[-7:]:
            record.unlink()
    elif lost == "entry":
        records[-4].unlink()
    else:
        (folder / "lowwater.json").unlink()
    with pytest.raises(lw.StateError, match=r"missing|has no lowwater.json"):
        ran(stream)
    assert rows(stream / "out") == calm


# -- going back ------------------------------------------------------------------------------------


def test_a_rewound_query_needs_a_word_on_its_outputs(stream, capfd):
    calm = rows(stream / "out")
    newest = lw_status(stream).epoch
    back = newest - 8
    said = command(capfd, "state", stream / "c", "--rewind", back).out
    assert f"rewound from epoch {newest} to {back}" in said
    with pytest.raises(lw.StateError, match=r"outputs are ahead .* outputs='truncate'"):
        ran(stream)
    assert rows(stream / "out") == calm
    ran(stream, outputs="truncate")
    assert rows(stream / "out") == calm, "the same files give the same rows"
    assert not list(verify(str(stream / "c")))


def test_kept_outputs_come_twice(stream, capfd):
    newest = lw_status(stream).epoch
    calm = len(list((stream / "out").glob("*.parquet")))
    command(capfd, "state", stream / "c", "--rewind", newest - 5)
    ran(stream, outputs="keep")
    assert len(list((stream / "out").glob("*.parquet"))) > calm


def test_only_kept_epochs_can_be_reached(stream, capfd):
    assert (
        "can be rewound to the epochs"
        in command(capfd, "state", stream / "c", "--rewind", 0, code=2).err
    )


def test_verify_checks_the_epochs_that_a_rewind_can_reach(stream, capfd):
    newest = lw_status(stream).epoch
    for back in (newest - 10, newest - KEPT_EPOCHS):
        command(capfd, "state", stream / "c", "--rewind", back)
        assert "intact" in command(capfd, "state", stream / "c", "--verify").out
    refused = command(capfd, "state", stream / "c", "--rewind", back - 1, code=2).err
    assert f"can be rewound to the epochs {back} to {back}" in refused
    damaged = max((stream / "c").rglob(f"{back:012d}-*.segment"))
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    assert damaged.name in command(capfd, "state", stream / "c", "--verify", code=1).out


def test_an_export_is_not_overtaken_by_a_start_after_a_rewind(stream, capfd):
    newest, calm = lw_status(stream).epoch, rows(stream / "out")
    command(capfd, "state", stream / "c", "--rewind", newest - 4)
    stored = Checkpoint.at(str(stream / "c")).stored()
    with (
        StateFolder(str(stream / "c" / "state"), stored.id).pinned(),
        pytest.raises(lw.StateError, match="start the query when the export has ended"),
    ):
        ran(stream, outputs="truncate")
    ran(stream, outputs="truncate")
    assert rows(stream / "out") == calm


def test_an_older_copy_of_the_checkpoint_does_not_meet_newer_outputs_unseen(tmp_path):
    write_files(tmp_path)
    sink = lw.to_parquet(tmp_path / "out")
    running = query(tmp_path).start(host="local", sink=sink, checkpoint=str(tmp_path / "c"))
    wait_until(lambda: running.status().epoch >= 6)
    running.stop()
    shutil.copytree(tmp_path / "c", tmp_path / "old")
    ran(tmp_path)
    shutil.rmtree(tmp_path / "c")
    shutil.copytree(tmp_path / "old", tmp_path / "c")
    with pytest.raises(lw.StateError, match="outputs are ahead of the checkpoint"):
        ran(tmp_path)


def lw_status(folder):
    return ran(folder).status


# -- savepoints ------------------------------------------------------------------------------------


def test_a_savepoint_continues_as_another_query(tmp_path, capfd):
    write_files(tmp_path)
    sink = lw.to_parquet(tmp_path / "out")
    running = query(tmp_path).start(host="local", sink=sink, checkpoint=str(tmp_path / "c"))
    wait_until(lambda: running.status().epoch >= 6)
    command(capfd, "state", tmp_path / "c", "--export", tmp_path / "s.zip")
    running.stop()
    ran(tmp_path)
    command(capfd, "state", tmp_path / "copy", "--import", tmp_path / "s.zip")
    assert not list(verify(str(tmp_path / "copy")))
    with pytest.raises(lw.SinkError, match="files of another query"):
        ran(tmp_path, "copy")
    ran(tmp_path, "copy", "copied")
    calm, copied = rows(tmp_path / "out"), rows(tmp_path / "copied")
    assert copied
    assert copied == {name: calm[name] for name in copied}
    assert max(copied) == max(calm)


def test_a_savepoint_remembers_which_files_were_read(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(taken_files, "SEGMENT_STAMPS", 4)
    write_files(tmp_path)
    ran(tmp_path)
    assert list((tmp_path / "c" / "source").rglob("taken-*"))
    command(capfd, "state", tmp_path / "c", "--export", tmp_path / "s.zip")
    command(capfd, "state", tmp_path / "copy", "--import", tmp_path / "s.zip")
    assert not list(verify(str(tmp_path / "copy")))
    again = ran(tmp_path, "copy", "copied")
    assert again.status["in"] == ran(tmp_path).status["in"], "no file is read again"
    stamps = next((tmp_path / "copy" / "source").rglob("taken-*"))
    stamps.write_bytes(b"")
    assert stamps.name in command(capfd, "state", tmp_path / "copy", "--verify", code=1).out


def test_a_damaged_savepoint_is_refused(stream, capfd):
    command(capfd, "state", stream / "c", "--export", stream / "s.zip")
    content = (stream / "s.zip").read_bytes()
    chosen = random.Random(5)
    for bit in chosen.sample(range(8 * len(content)), 60):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        (stream / "d.zip").write_bytes(damaged)
        target = stream / f"copy-{bit}"
        with suppress(SystemExit):
            main(["state", str(target), "--import", str(stream / "d.zip")])
        if (target / "lowwater.json").exists():
            assert not list(verify(str(target)))
    capfd.readouterr()


# -- owners ----------------------------------------------------------------------------------------


def test_outputs_of_another_checkpoint_are_refused(stream):
    calm = rows(stream / "out")
    with pytest.raises(lw.SinkError, match=r"holds \d+ files of another query .*existing='append'"):
        ran(stream, "other")
    assert rows(stream / "out") == calm
    shutil.rmtree(stream / "other")
    ran(stream, "other", existing="overwrite")
    assert rows(stream / "out") == calm
    shutil.rmtree(stream / "other")
    ran(stream, "other", existing="append")
    assert len(list((stream / "out").glob("*.parquet"))) == 2 * len(calm)


def test_appended_outputs_are_told_from_those_of_others(stream, capfd):
    first = {path.name for path in (stream / "out").iterdir()}
    newest = ran(stream, "other", existing="append").status.epoch
    both = rows_by_name(stream / "out")
    command(capfd, "state", stream / "other", "--rewind", newest - 8)
    with pytest.raises(lw.StateError, match="outputs are ahead of the checkpoint"):
        ran(stream, "other", existing="append")
    assert rows_by_name(stream / "out") == both
    ran(stream, "other", existing="append", outputs="truncate")
    assert first <= {path.name for path in (stream / "out").iterdir()}
    assert sorted(rows_by_name(stream / "out").values()) == sorted(both.values())


def rows_by_name(folder):
    return {path.name: ordered_rows(pq.read_table(path)) for path in folder.glob("*.parquet")}
