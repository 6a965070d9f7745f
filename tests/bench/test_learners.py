"""The benchmark of learners: its timers measure learners only, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.learner_timers import LearnerTimers
from bench.learners import QUERIES, Case, learners, local_cost
from lowwater.watermarks.adaptive.adapter import SlackAdapter

ONE_ON_SPARK = """
from bench.learners import Case, on_spark
(cost,) = on_spark([Case("join", 40, True, 4)])
assert 0 < cost.shards < cost.epoch, cost
assert 0 < cost.controller < cost.epoch, cost
"""


@pytest.mark.parametrize("query", QUERIES)
def test_learners_take_a_part_of_an_epoch_in_shards_and_in_the_controller(query):
    cost = local_cost(Case(query, 40, late=True, epochs=6))
    assert 0 < cost.shards < cost.epoch
    assert 0 < cost.controller < cost.epoch
    assert cost.shards + cost.controller < cost.epoch


def test_timers_end_with_their_context():
    before = SlackAdapter.advance
    timers = LearnerTimers()
    with timers.running():
        assert SlackAdapter.advance is not before
    assert SlackAdapter.advance is before
    assert timers.shards == timers.controller == 0


def test_command_prints_a_line_for_each_case_in_one_process_and_on_the_local_host(monkeypatch):
    monkeypatch.setattr("bench.learners.RATES", (40,))
    monkeypatch.setattr("bench.learners.on_spark", lambda _: iter(()))
    lines = list(learners(0.05))
    kinds = [line.split("\t")[0] for line in lines]
    assert [kinds.count(f"learners-{k}") for k in ("local", "checkpoint", "paired")] == [8, 4, 8]
    assert all("%" in line for line in lines)


@pytest.mark.spark
def test_workers_of_spark_note_what_learners_take():
    # A session of its own, because the daemon of the workers is chosen before the JVM starts.
    done = subprocess.run(
        [sys.executable, "-c", ONE_ON_SPARK], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
