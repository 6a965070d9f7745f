"""Early values in the arena: the pairs are those of a plain loop, and the targets hold."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from experiments.arena import value_report, value_run, value_verdict
from experiments.arena.families import FAMILIES
from experiments.arena.value_report import by_stream, fails, pooled
from experiments.arena.value_run import plain, said
from experiments.arena.value_verdict import Judged, deciles, fifths, pinball
from experiments.arena.values import KINDS, changes, pairs
from lowwater.early.calibration import competition, interval_ends


def part(name, windows, seed=0):
    """The first windows of a stream."""
    whole = FAMILIES[name].stream(seed)
    mine = whole.ts < whole.ts.min() + windows * whole.range
    columns = {c: getattr(whole, c)[mine] for c in ("ts", "arrived", "key", "value", "matches")}
    return replace(whole, **columns).tumbling(whole.range)


def test_pairs_are_those_of_a_plain_loop():
    stream = part("low-rate", 60)
    found = pairs(stream, 0.25)
    assert len(found) > 20
    groups = np.unique(stream.key)
    for i in range(0, len(found), 7):
        end = found.end[i]
        mine = (stream.ts >= end - stream.range) & (stream.ts < end)
        mine &= stream.key == groups[found.group[i]]
        early = stream.value[mine & (stream.row_epoch <= found.asked[i])]
        assert found.early["count"][i] == len(early)
        assert found.early["max"][i] == early.max()
        assert found.early["sum"][i] == pytest.approx(early.sum())
        assert found.early["median"][i] == pytest.approx(np.median(early))
        assert found.early["distinct"][i] == len(np.unique(np.floor(early)))
        assert found.final["count"][i] <= mine.sum()
        asked = found.asked[i]
        assert stream.newest[asked] >= end - 0.25 * stream.range
        assert asked == 0 or stream.newest[asked - 1] < end - 0.25 * stream.range
        assert found.known[i] > asked


def test_plain_intervals_hold_their_level_where_nothing_changes():
    found = pairs(part("exponential", 120), 0.25)
    final = found.final["sum"]
    for low, high in plain(found, "sum", found.early["sum"]):
        known = np.isfinite(low)
        assert known.sum() > 100
        assert np.mean(((low <= final) & (final <= high))[known]) == pytest.approx(0.9, abs=0.06)


def test_a_change_is_found_where_it_is():
    stream = part("one-change", 400)
    (change, *_) = changes(stream, 400)
    assert 100 < change < 300
    assert not len(changes(part("exponential", 100), 100))


def test_the_quantile_has_the_smallest_pinball_loss():
    final = np.random.default_rng(0).exponential(1.0, 4_000)
    losses = [pinball(np.full(4_000, q), final, 0.9).mean() for q in (1.8, 2.3, 2.8)]
    assert min(losses) == losses[1]


@pytest.mark.experiment
def test_leads_can_be_chosen(monkeypatch):
    monkeypatch.setattr(value_report, "stream_of", lambda source: part(source[1], 60))
    source = (0, "low-rate")
    for leads in ((0.0,), (0.25, 0.0)):
        found = value_report._verdicts(source, leads)
        assert {one.lead for one in found} == set(leads)


@pytest.mark.experiment
@pytest.mark.parametrize("name", ["late-groups", "storms", "low-rate"])
def test_early_values_meet_the_targets_on_tuning_streams(name):
    stream = part(name, 160)
    found = pairs(stream, 0.25)
    verdicts = Judged(name, "tuning", 0.25, found, changes(stream, 160)).verdicts()
    assert {one.aggregate for one in verdicts} == set(KINDS)
    count, *_ = verdicts
    assert not fails(count)
    assert count.ratio <= 1.0
    assert all(covered >= 0.85 for _, covered, _ in deciles([count]))
    assert all(abs(told - seen) < 0.12 for told, seen, n in fifths([count]) if n > 100)
    shown = StringIO()
    console = Console(file=shown, width=160)
    console.print(by_stream(verdicts))
    console.print(pooled("tuning", verdicts))
    assert "late-groups" in shown.getvalue() or name != "late-groups"


def judged(monkeypatch, name, windows):
    """The verdicts on counts and sums of the first windows of a stream."""
    kinds = {n: KINDS[n] for n in ("count", "sum")}
    for module in (value_run, value_verdict):
        monkeypatch.setattr(module, "KINDS", kinds)
    stream = part(name, windows)
    moved = changes(stream, windows)
    return Judged(name, "tuning", 0.25, pairs(stream, 0.25), moved).verdicts()


@pytest.mark.experiment
def test_estimates_must_compete(monkeypatch):
    assert not any("error" in fails(one) for one in judged(monkeypatch, "low-rate", 240))

    def completed(record, cell):
        return np.full(len(cell.past), 2)

    monkeypatch.setattr(competition, "winner", completed)
    assert all("error" in fails(one) for one in judged(monkeypatch, "low-rate", 240))


@pytest.mark.experiment
def test_ends_of_intervals_must_compete(monkeypatch):
    for one in judged(monkeypatch, "drifting-clocks", 400):
        assert not fails(one)
    monkeypatch.setattr(interval_ends, "FEWEST", 10**9)
    assert all("pinball" in fails(one) for one in judged(monkeypatch, "drifting-clocks", 400))


def test_estimates_lie_between_the_ends_of_their_intervals():
    every, _ = said(pairs(part("clock-steps", 40), 0.0))
    for name, one in every.items():
        known = np.isfinite(one.low)
        assert known.any(), name
        assert (one.low <= one.estimate)[known].all(), name
        assert (one.estimate <= one.high)[known].all(), name
