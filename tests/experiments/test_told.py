"""What the arena says about told quality: the judge, and streams on which it must hold."""

import numpy as np
import pytest

from experiments.arena import told
from experiments.arena.rules import LibraryRule
from experiments.arena.simulate import Simulation
from experiments.arena.told import LEAST, MOST, WatchedRule, judge_told, told_table
from lowwater.watermarks.adaptive import told_quality


@pytest.mark.parametrize("family", ["exponential", "storms", "late-values"])
def test_told_quality_is_true_over_any_thousand_rows(family: str) -> None:
    verdicts = judge_told((0, family))
    assert not isinstance(verdicts, str)
    for one in verdicts:
        assert one.compared > 20
        assert LEAST <= one.lowest <= one.highest <= MOST
        assert not one.fails
    assert family not in {*told_table(verdicts).columns[2]._cells}


def test_windows_that_settle_too_early_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_quality.Survival, "settled", lambda *_: True)
    verdicts = judge_told((0, "storms"))
    assert not isinstance(verdicts, str)
    assert all(one.fails and one.highest > MOST for one in verdicts)
    assert "fails" in list(told_table(verdicts).columns[-1].cells)


def test_a_book_at_the_end_tells_exactly_what_was_in_time() -> None:
    sim = Simulation(told.stream_of((1, "low-rate")))
    last = len(sim.stream.cuts) - 1
    rule = WatchedRule(0.9, sim, [last])
    course = sim.run(rule)
    ((_, book),) = told._books(sim, course, [last])
    found = sim.incidences
    in_time = int(found.count[~course.late].sum())
    assert sum(span.given for span in book.spans) == in_time
    assert sum(span.lost for span in book.spans) == int(found.rows.sum()) - in_time
    assert sum(span.windows for span in book.spans) == len(found.ends)


def test_a_rule_that_is_watched_decides_the_same() -> None:
    sim = Simulation(told.stream_of((1, "low-rate")))
    watched, alone = sim.run(WatchedRule(0.9, sim, [5])), sim.run(LibraryRule(0.9, sim.stream))
    assert np.array_equal(watched.slack, alone.slack)
