"""O6: joint against individual punctuation (OOP, section 7).

Query Q3 counts TCP connections: a SYN on one link, its SYN_ACK on the other, at most a band apart,
counted by the second of both. A count is complete when all pairs of its two seconds have come. The
join can punctuate each time by itself (individual), or both together (joint).

The paper has no measurement of it, only the argument: joint punctuation does not depend on the
band. Both links are in step and in order; an answer follows after a round trip of 0.3 s on average.
The band is n seconds to either side, as in the paper's figure 8; Q3's filter `S0.ts < S1.ts` would
drop nothing, since answers come after what they answer. Individual punctuation is given its best
case: a count is emitted as soon as either of its two times is complete, from two plans, of which
each is punctuated on one. Beside it stands the band that makes the filter part of the join, 0 to n:
then the second time by itself does not wait for the band either.

Time is that of a virtual clock; an epoch is 1 s, and watermarks act in the next one, for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREY, ORANGE, canvas, label, legend
from experiments.streams.traffic import Link, schema
from lowwater.query.stream import Stream
from lowwater.sources.feed import Feed
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED, RATE = 6, 30
TRIP = 0.3  # seconds
SECONDS = "1 second"
NEAR = 1.0
"""Sooner "by about the band": the mean gain differs from it by at most these seconds. The
difference is the time between the two seconds of a count, about a round trip."""
Counts = dict[tuple[int, int], tuple[int, int]]
"""By the second of both times: how many pairs, and the epoch that emitted the count."""


def generate(seconds: int) -> tuple[Link, Link]:
    """Return the links: SYN packets, and their answers."""
    random = np.random.default_rng(SEED)
    count = RATE * seconds
    sent = np.sort(random.integers(0, seconds * SECOND, count))
    trip = np.minimum(random.exponential(TRIP, count), 5.0)
    answered = sent + (trip * SECOND).astype(np.int64) + 1
    return _link(sent, np.arange(count)), _link(answered, np.arange(count))


def _link(ts: np.ndarray, connection: np.ndarray) -> Link:
    kept = schema(("connection", "second"))
    order = np.argsort(ts, kind="stable")
    columns = [ts[order], connection[order], ts[order] // SECOND]
    return Link(pa.table([pa.array(c) for c in columns], kept.names).cast(kept))


@dataclass(frozen=True)
class Trial:
    """Both links, cut into epochs of a second."""

    judged: int
    feeds: tuple[Feed, Feed]
    epochs: Mapping[Feed, Sequence[pa.Table]]

    @classmethod
    def over(cls, judged: int, widest: int) -> Trial:
        """Make the links: the seconds that are judged, then until the widest band is over."""
        seconds = judged + widest + 5
        links = generate(seconds)
        feeds = Feed(links[0].packets.schema), Feed(links[0].packets.schema)
        cut = [link.epochs(SECOND, seconds + 6) for link in links]
        return cls(judged, feeds, dict(zip(feeds, cut, strict=True)))

    def pairs(self, band: tuple[str, str]) -> Stream:
        """Return each SYN with its SYN_ACK."""
        syn, ack = (lw.stream(f, time="ts", watermark=lw.ordered()) for f in self.feeds)
        return syn.join(ack, on="connection", band=band, time="both")

    def joint(self, band: tuple[str, str]) -> Counts:
        """Count by both times, as complete as both together are."""
        found = self.pairs(band).window(range=SECONDS, on=("ts", "ts_other"))
        return self._play(found.agg(n=lw.count()), ("window", "window_2"))

    def on_first(self, band: tuple[str, str]) -> Counts:
        """Count by both times, when all pairs with a first time have come."""
        found = self.pairs(band).window(range=SECONDS, on="ts").group_by("second_other")
        return self._play(found.agg(n=lw.count()), ("window", "second_other"))

    def on_second(self, band: tuple[str, str]) -> Counts:
        """Count by both times, when all pairs with a second time have come."""
        found = self.pairs(band).window(range=SECONDS, on="ts_other").group_by("second")
        return self._play(found.agg(n=lw.count()), ("second", "window"))

    def _play(self, query: Stream, places: tuple[str, str]) -> Counts:
        sink = lw.to_memory()
        clock = lw.VirtualClock("1970-01-01", timedelta(seconds=1))
        query.run(epochs=self.epochs, sink=sink, clock=clock, shards=1)
        found: Counts = {}
        for epoch, rows in sink.epochs.items():
            first, second = (_seconds(rows, place) for place in places)
            counts = rows.column("n").to_pylist()
            found |= {(a, b): (n, epoch) for a, b, n in zip(first, second, counts, strict=True)}
        return found


def _seconds(rows: pa.Table, place: str) -> list[int]:
    column = rows.column(place).combine_chunks()
    if pa.types.is_struct(column.type):
        column = pa.array(column.field("start").cast(pa.int64()).to_numpy() // SECOND)
    found: list[int] = column.to_pylist()
    return found


@dataclass(frozen=True)
class Point:
    """A band, and the mean time from the later of its two seconds to the count."""

    low: int
    high: int
    joint: float
    first: float
    second: float
    either: float
    counts: int
    same: bool

    @property
    def gain(self) -> float:
        """How many seconds sooner counts are emitted with joint punctuation."""
        return self.either - self.joint


def measure(trial: Trial, low: int, high: int) -> Point:
    """Count with a band from `low` to `high` seconds, under each kind of punctuation."""
    band = (f"{low} seconds", f"{high} seconds")
    joint, first, second = trial.joint(band), trial.on_first(band), trial.on_second(band)
    keys = [k for k in joint if max(k) < trial.judged]
    told = [{k: n for k, (n, _) in found.items()} for found in (joint, first, second)]
    same = told[0] == told[1] == told[2]
    ages = [np.array([found[k][1] - max(k) for k in keys]) for found in (joint, first, second)]
    either = np.minimum(ages[1], ages[2])
    mean = [float(a.mean()) for a in (*ages, either)]
    return Point(low, high, mean[0], mean[1], mean[2], mean[3], len(keys), same)


def check(points: Sequence[Point], one_sided: Point) -> list[Check]:
    """Return the shapes and whether they hold."""
    joint = [p.joint for p in points]
    off = max(abs(p.gain - p.high) for p in points)
    return [
        Check(
            "all ways give the same counts",
            all(p.same and p.counts > 0 for p in [*points, one_sided]),
            f"{points[0].counts} counts judged for each band",
        ),
        Check(
            "with joint punctuation the delay does not depend on the band",
            max(joint) == min(joint),
            f"{min(joint):g} to {max(joint):g} s",
        ),
        Check(
            f"joint punctuation lets counts out sooner by about the band (within {NEAR:g} s)",
            off <= NEAR,
            ", ".join(f"{p.gain:.2f} s at {p.high} s" for p in points),
        ),
    ]


def draw(points: Sequence[Point]) -> Figure:
    """Draw the delay over the band."""
    figure, axes = canvas("Joint and individual punctuation on a band join")
    at, ax = [p.high for p in points], axes[0]
    ax.plot(at, [p.second for p in points], "o:", ms=4, color=GREY, label="on the second time")
    ax.plot(at, [p.either for p in points], "o-", ms=5, color=ORANGE, label="on either time")
    ax.plot(at, [p.joint for p in points], "o-", ms=5, color=BLUE, label="jointly on both")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    label(ax, "From the later second of a count to its answer", "band to either side, s", "mean, s")
    legend(ax)
    return figure


class JointPunctuation(Experiment):
    """How long counts by both times of a band join wait, by kind of punctuation."""

    id = "O6"
    paper = "OOP, section 7"
    title = "Joint and individual punctuation on a band join"
    reports = (
        "count by both times of a band join: joint punctuation is independent of the band and can "
        "be produced earlier than individual punctuation, which waits for it."
    )
    here = (
        "A count is of pairs, by the second of both times; its delay is from the end of the later "
        "of the two seconds to the answer. On either time: as soon as one of both is complete."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Count with every band, under each kind of punctuation."""
        bands, judged = ((5, 15), 15) if quick else ((10, 30, 60, 120), 50)
        trial = Trial.over(judged, bands[-1])
        points = [measure(trial, -n, n) for n in bands]
        one_sided = measure(trial, 0, bands[-1])
        last = points[-1]
        return Outcome(
            rows=[_row(p) for p in [*points, one_sided]],
            compared=[
                Comparison(
                    f"sooner by joint punctuation, band of {last.high} s to either side",
                    "by about the band",
                    f"{last.gain:.1f} s",
                ),
                Comparison(
                    f"the same, band from 0 to {last.high} s", "–", f"{one_sided.gain:.1f} s"
                ),
            ],
            checks=check(points, one_sided),
            figure=draw(points),
            settings={"connections per second": RATE, "round trip": f"{TRIP} s", "epoch": "1 s"},
        )


def _row(point: Point) -> dict[str, Value]:
    return {
        "band s": f"{point.low} to {point.high}",
        "jointly s": point.joint,
        "on the first time s": point.first,
        "on the second time s": point.second,
        "on either time s": point.either,
        "sooner s": point.gain,
    }


EXPERIMENT = JointPunctuation()
