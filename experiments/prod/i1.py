"""I1: how often the intervals of early results cover the final value (PROD 3.4 and 6.2).

The paper watches the accuracy of early results; it has no intervals. Lowwater gives each early row
an interval that should hold the final value nine times out of ten. The experiment judges intervals
as the semantics require: on disjoint windows, by coverage and by interval score, against the plain
empirical quantiles of past windows (see `intervals`).

Streams are those of the paper's generator, and recorded ones where they are present (`recordings`).
All windows are tumbling, about a thousand or more. The generator's are asked for half a window
before their end, or 10 to 50 % of a window, in turn. In recorded streams the newest row is
the clock. Flights are asked for before, at and after the end of a window, in turn; the market
feed 10 to 50 % of a window before its end; the DNS log by a policy, before the end and at it, and
so that each window is asked for again and again. The DNS log gives two streams: the answered
queries, with their round trips, and all queries, with the lengths of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREY, INK, ORANGE, canvas, label, legend
from experiments.prod.aggressiveness import generate
from experiments.prod.intervals import ALPHA, LITTLE, IntervalScore, judge
from experiments.prod.p6 import normal
from experiments.streams import recordings as recorded
from experiments.streams.prods import Answers, Ask, Play, Rows
from lowwater.aggregates.aggregate import Aggregate
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 1
SIZE = 30 * SECOND
MINUTE, MS = 60 * SECOND, SECOND // 1_000
STATED = 100 * (1 - ALPHA)
NEAR, NO_WORSE = 3.0, 1.0
"""How many points coverage may be off, and how many times the score of plain intervals is still no
worse."""
NEAR_QUICK, NO_WORSE_QUICK = 15.0, 1.5
"""The same in a quick run, with few windows, of which the first are still spent on learning."""
MIXED = (0.1, 0.2, 0.3, 0.4, 0.5)


def functions(column: str) -> dict[str, Aggregate]:
    """Return the aggregates that are judged."""
    return {
        "count": lw.count(),
        "sum": lw.sum(column),
        "avg": lw.avg(column),
        "max": lw.max(column),
        "min": lw.min(column),
    }


def generated(deviation: int | None, leads: Sequence[float], windows: int) -> Answers:
    """Play the paper's generator, values uniform or normal."""

    def uniform(random: np.random.Generator, n: int) -> np.ndarray:
        return random.integers(0, 1_000, n).astype(np.float64)

    draw = uniform if deviation is None else normal(deviation)
    rows = generate(SEED, (windows + 1) * SIZE // SECOND, {"x": draw})
    ahead = np.array([round(s * SIZE) for s in leads])
    ask = Ask(SIZE, SIZE, functions("x"))
    play, asks = Play.asked(rows, ask, lambda n: np.resize(ahead, n))
    return play.run(asks, "complete")


@dataclass(frozen=True)
class Recording:
    """A recorded stream: windows of `size`, asked for `leads` ticks before their ends, in turn.

    Without `leads` they are asked for by `lw.early_before(share)`, each once. A prod of a stream is
    for all open windows up to its own: where slack is long against a window, each is asked for
    again and again. Its first answer is judged.
    """

    read: Callable[[], Rows]
    size: int
    slack: int
    leads: Sequence[int]
    most: int
    """How many windows are played at most."""
    share: float = 0.0

    def play(self) -> Answers:
        """Play the stream."""
        rows = self.read()
        first = int(rows.ts[0]) // self.size + 1
        ends = np.arange(first, first + self.most) * self.size
        newest = np.maximum.accumulate(rows.ts)
        ends = ends[ends + self.slack <= newest[-1]]
        policy = lw.slack(timedelta(microseconds=self.slack))
        ask = Ask(self.size, self.size, functions("x"), policy)
        if not self.leads:
            step = self.size // (10 if self.share else 2)
            cuts = np.arange(rows.arrived[0], rows.arrived[-1] + self.size, step) + 1
            return Play.of(rows, ask, cuts, ends).run(lw.early_before(self.share), "complete")
        asks = self._moments(rows, newest, ends - np.resize(self.leads, len(ends)))
        closed = self._moments(rows, newest, ends + self.slack)
        cuts = np.unique(np.concatenate([asks, closed, [closed[-1] + 1]]))
        # Of windows that would be asked for at the same moment, the last: one prod a cut.
        prods = dict(zip(asks.tolist(), ends.tolist(), strict=True))
        return Play.of(rows, ask, cuts, ends).run(prods, "complete")

    @staticmethod
    def _moments(rows: Rows, newest: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return when the stream reaches times: right after the first row that is not before."""
        place = np.searchsorted(newest, times)
        return np.asarray(rows.arrived[np.minimum(place, len(newest) - 1)] + 1)


AT_END = "DNS log, 0.5 s, asked at the end"
AGAIN = "DNS log, 1 s, asked again and again"
MANY = 1_000
"""So many windows make a coverage that can be held against 3 points."""
RECORDINGS = {
    "flights, 1 h": Recording(
        recorded.flights, 60 * MINUTE, 180 * MINUTE, (15 * MINUTE, 0, -20 * MINUTE), 2_400
    ),
    "market feed, 0.5 s": Recording(
        recorded.market, 500 * MS, 220 * MS, [round(500 * share) * MS for share in MIXED], 1_300
    ),
    "DNS log, 0.5 s": Recording(recorded.dns, SECOND // 2, 100 * SECOND, (), 2_600, 0.1),
    "DNS log, all, 0.5 s": Recording(recorded.dns_names, SECOND // 2, 100 * SECOND, (), 2_600, 0.1),
    "DNS log, all, 0.5 s, at the end": Recording(
        recorded.dns_names, SECOND // 2, 100 * SECOND, (), 2_600
    ),
    AT_END: Recording(recorded.dns, SECOND // 2, 100 * SECOND, (), 2_600),
    AGAIN: Recording(recorded.dns, SECOND, 100 * SECOND, (SECOND // 2, 0, -5 * SECOND), 1_300),
}


@dataclass(frozen=True)
class Line:
    """The intervals of one aggregate over one stream."""

    stream: str
    aggregate: str
    found: IntervalScore

    def row(self) -> dict[str, Value]:
        """Return a row of the table."""
        return {
            "": self.stream,
            "aggregate": self.aggregate,
            "windows": self.found.windows,
            "coverage %": self.found.coverage,
            "unchanged %": self.found.unchanged,
            "lacking: coverage %": self.found.lacking[0],
            "lacking: unchanged %": self.found.lacking[1],
            "plain %": self.found.plain_coverage,
            "score": self.found.score,
            "by difference": _times(self.found.score, self.found.plain_scores[0]),
            "by ratio": _times(self.found.score, self.found.plain_scores[1]),
            "score / plain": self.found.ratio,
        }


def _times(ours: float, plain: float) -> float | None:
    return ours / plain if plain > 0 and np.isfinite(plain) else None


def lines(streams: Mapping[str, Answers]) -> list[Line]:
    """Judge all aggregates of all streams."""
    return [Line(s, name, judge(a, name)) for s, a in streams.items() for name in a.final]


def check(made: Sequence[Line], real: Sequence[Line], *, quick: bool) -> list[Check]:
    """Return the shapes and whether they hold."""
    checks = []
    near, no_worse = (NEAR_QUICK, NO_WORSE_QUICK) if quick else (NEAR, NO_WORSE)
    late = (AT_END, AGAIN)  # most of these windows do not change any more
    for told, some in (
        ("the generator", made),
        ("recorded streams", [x for x in real if x.stream not in late]),
        ("windows that are asked for at their end or later", [x for x in real if x.stream in late]),
    ):
        many = [x for x in some if quick or x.found.windows >= MANY]
        if not many:
            continue
        off = max(many, key=lambda x: abs(x.found.coverage - STATED))
        part = max(some, key=lambda x: abs(x.found.lacking[0] - STATED))
        ratio = float(np.exp(np.mean([np.log(x.found.ratio) for x in some if x.found.ratio])))
        worst = max(some, key=lambda x: x.found.ratio or 0)
        checks += [
            Check(
                f"{told}: intervals cover {STATED:g} % of {MANY:,} windows or more, within "
                f"{near:g} points",
                abs(off.found.coverage - STATED) <= near,
                f"furthest {off.found.coverage:.1f} %, {off.stream}, {off.aggregate}",
            ),
            Check(
                f"{told}: so they do where more than {100 * LITTLE:g} % of a window was missing",
                abs(part.found.lacking[0] - STATED) <= near,
                f"furthest {part.found.lacking[0]:.1f} %, {part.stream}, {part.aggregate}",
            ),
            Check(
                f"{told}: the interval score is better than that of plain ones "
                f"(below {no_worse:g} times, geometric mean)",
                ratio < no_worse,
                f"{ratio:.3f} times; worst {worst.found.ratio or 0:.2f}, {worst.stream}, "
                f"{worst.aggregate}",
            ),
        ]
    return checks


def draw(found: Sequence[Line]) -> Figure:
    """Draw coverage and score of every line."""
    figure, axes = canvas("Intervals of early results", 2, sharey=True)
    figure.set_size_inches(11.4, 1.6 + 0.21 * len(found))
    at = np.arange(len(found))[::-1]
    axes[0].plot([x.found.plain_coverage for x in found], at, "D", ms=5, color=GREY, label="plain")
    axes[0].plot([x.found.coverage for x in found], at, "o", ms=6, color=BLUE, label="Lowwater")
    axes[0].axvline(STATED, color=INK, lw=1, ls=":")
    axes[1].plot([x.found.ratio or np.nan for x in found], at, "o", ms=6, color=ORANGE)
    axes[1].axvline(1, color=INK, lw=1, ls=":")
    axes[0].set_yticks(at, [f"{x.stream}: {x.aggregate}" for x in found], fontsize=9)
    label(axes[0], f"Coverage, stated {STATED:g} %", "% of windows", "")
    label(axes[1], "Interval score by that of plain ones: lower is better", "times", "")
    legend(axes[0], loc="lower left")
    return figure


class Intervals(Experiment):
    """Coverage and score of the intervals of early results."""

    id = "I1"
    paper = "PROD, sections 3.4 and 6.2"
    title = "Intervals of early results"
    reports = (
        "nothing of intervals: the accuracy of early results can be watched as finals come, and "
        "prodding be adjusted by it."
    )
    here = (
        "Each early row has an interval that is to hold the final with 90 %. The interval score is "
        "its width and 20 times what a final is outside; plain intervals are empirical quantiles "
        "of past windows, around the same estimates. Unchanged are windows whose final is what had "
        "arrived; lacking are those of which more than 1.5 % was missing. Disjoint windows."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Play all streams that are present."""
        count = 120 if quick else 1_500
        made = {"generator, uniform, 50 %": generated(None, (0.5,), count)}
        if not quick:
            made["generator, SD 400, 50 %"] = generated(400, (0.5,), count)
            made["generator, uniform, 10–50 %"] = generated(None, MIXED, count)
        real, absent = ({}, []) if quick else recordings()
        ours, theirs = lines(made), lines(real)
        within = sum(abs(x.found.coverage - STATED) <= NEAR for x in [*ours, *theirs])
        better = sum((x.found.ratio or 0) < 1 for x in [*ours, *theirs])
        told = (
            f"{within} of {len(ours) + len(theirs)} cover {STATED:g} ± {NEAR:g} %, "
            f"{better} have a better score than plain ones"
        )
        return Outcome(
            rows=[x.row() for x in [*ours, *theirs]],
            compared=[Comparison("intervals", "none", told), *absent],
            checks=check(ours, theirs, quick=quick),
            figure=draw([*ours, *theirs]),
            settings={"stated coverage": f"{STATED:g} %", "seed": SEED},
        )


def recordings() -> tuple[dict[str, Answers], list[Comparison]]:
    """Play the recorded streams that are present, and list the absent ones."""
    found, absent = {}, []
    for name, recording in RECORDINGS.items():
        try:
            found[name] = recording.play()
        except recorded.AbsentError as why:
            absent.append(Comparison(name, "–", str(why)))
    return found, absent


EXPERIMENT = Intervals()
