"""A run that fails starts again, by a rule; a failure that comes back does not."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.engine.failure import Failure
from lowwater.engine.restart import Restart
from lowwater.sinks.sink import Outputs, Sink
from tests.local.victim import query, write_files
from tests.wait import wait_until


class Broken(Sink):
    """A sink whose server is away at some writes."""

    def __init__(self, at):
        self.at, self.calls, self.epochs = at, 0, {}

    def write(self, epoch, rows):
        self.calls += 1
        if self.calls in self.at:
            raise ConnectionError("the server is away")
        self.epochs[epoch] = rows


def start(folder, sink, **rule):
    return query(folder).start(
        host="local",
        sink=sink,
        checkpoint=str(folder / "c"),
        restart=lw.restart(pause="1 millisecond", **rule),
    )


def test_a_failed_run_starts_again_and_loses_nothing(tmp_path):
    write_files(tmp_path)
    calm, broken = lw.to_memory(), Broken(at={3, 9, 10})
    whole = query(tmp_path).start(host="local", sink=calm, checkpoint=str(tmp_path / "calm"))
    wait_until(lambda: whole.status()["in"] == 3_000 and whole.newest.quiet)
    whole.stop()
    run = start(tmp_path, broken, times=5)
    seen = lw.to_memory()
    run.watch(Outputs(seen))
    wait_until(lambda: run.status()["in"] == 3_000 and run.newest.quiet)
    status = run.status()
    run.stop()
    assert run.wait(1)
    assert broken.epochs == calm.epochs
    assert max(seen.epochs) == max(calm.epochs), "who watches goes on watching"
    assert status.restarts == 3
    assert "the server is away" in status.last_failure
    assert "epoch" in status.last_failure


def test_a_failure_that_comes_back_is_not_restarted_a_third_time(tmp_path):
    write_files(tmp_path)
    run = start(tmp_path, Broken(at=set(range(3, 100))), times=50)
    with pytest.raises(lw.HostError, match=r"epoch \d+ failed in the sink .* is away") as failed:
        run.wait(30)
    assert "failed 3 times for the same reason" in str(failed.value)
    assert "--set-aside" not in str(failed.value), "the rows of this epoch are in its results"
    assert run.status().restarts == 2


def test_a_run_whose_checkpoint_was_taken_is_not_restarted(tmp_path):
    write_files(tmp_path, epochs=60)
    first = start(tmp_path, lw.to_memory(), times=50)
    wait_until(lambda: first.status().epoch >= 2)
    second = query(tmp_path).start(
        host="local", sink=lw.to_memory(), checkpoint=str(tmp_path / "c")
    )
    with pytest.raises(lw.HostError, match="has taken over this checkpoint"):
        first.wait(30)
    assert first.status().restarts == 0
    assert not second.wait(0)
    second.stop()


def test_a_sink_that_fails_at_the_start_is_named(tmp_path):
    write_files(tmp_path)
    with pytest.raises(lw.HostError):
        query(tmp_path).start(host="local", sink=Broken({3}), checkpoint=str(tmp_path / "c")).wait(
            30
        )

    def refuse(epoch, rows):
        raise ValueError("too wide")

    with pytest.raises(lw.HostError, match=r"epoch \d+ failed in the sink of results: .*too wide"):
        query(tmp_path).start(
            host="local", sink=lw.to_callback(refuse), checkpoint=str(tmp_path / "c")
        )


def test_too_many_failures_in_a_time_end_the_run(tmp_path):
    write_files(tmp_path)
    run = start(tmp_path, Broken(at=set(range(2, 100, 2))), times=4)
    with pytest.raises(lw.HostError, match="The run was restarted 4 times"):
        run.wait(30)


def test_a_rule_forgets_old_failures():
    rule = Restart(times=2, within=10.0, pause=0.0)
    failures = [(float(t), Failure("x", (f"epoch {t}",))) for t in (0, 6, 11)]
    assert rule.allows(failures)
    assert not rule.allows([*failures, (12.0, Failure("y", ("epoch 9",)))])


@pytest.mark.parametrize(
    ("options", "text"),
    [({"times": 0}, "times=0"), ({"within": "x"}, "within"), ({"within": "-1 second"}, "within=")],
)
def test_a_rule_that_cannot_work_is_refused(options, text):
    with pytest.raises(lw.SpecError, match=text):
        lw.restart(**options)


def test_without_a_rule_a_failure_ends_the_run(tmp_path):
    write_files(tmp_path)
    run = query(tmp_path).start(host="local", sink=Broken({2}), checkpoint=str(tmp_path / "c"))
    with pytest.raises(lw.HostError, match=r"epoch .* failed in the sink of results: Connection"):
        run.wait(30)
    assert pq.read_table(tmp_path / "stream").num_rows == 3_000


def test_a_run_without_restarts_shows_its_failure(tmp_path):
    write_files(tmp_path)
    run = query(tmp_path).start(host="local", sink=Broken({3}), checkpoint=str(tmp_path / "c"))
    assert not run.status().failed
    with pytest.raises(lw.HostError):
        run.wait(30)
    status = run.status()
    assert status.failed
    assert "the server is away" in status.last_failure
    assert status.restarts == 0
