"""P5: accuracy and latency of early results, values uniform (PROD, figure 4.6).

The stream and the prods are those of `aggressiveness`, with RANGE 30 s and SLIDE 10 s. The paper
reports about 540 rows a window; its generator, as it is described, gives 600. An oracle
that knows the rate of the generator adds to a raw count the mean number of rows in the rest of the
window: no estimate without foresight can be expected to do better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome
from experiments.harness.plot import BLUE, canvas, label, legend
from experiments.harness.shares import spread
from experiments.prod.aggressiveness import (
    FEW_SHARES,
    RATE,
    SHARES,
    Accuracies,
    Values,
    aggregates,
    curves,
    generate,
    linear,
    measure,
    no_worse,
)
from experiments.streams.prods import ESTIMATES, Ask, Play, Rows
from lowwater.early.accuracy import accuracy
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANGE, SLIDE = 30 * SECOND, 10 * SECOND
EXPECTED, NEAR, NEAR_QUICK = 83.3, 1.0, 3.0
"""The accuracy of raw sums and counts at 50 %, where 25 of 30 seconds are in, and how far it may be
off; in a quick run, with a twentieth of the windows, further."""
LINE = 1.0
"""By how many points raw sums and counts may be off a line."""
ORACLE = 0.98
"""Which part of the oracle's accuracy completed answers must reach."""
STRAIGHT = 0.1
"""By how many points latency gains may be off a line through zero."""
PAPER = {"avg": 99.03, "max": 99.93, "sum": 79.5, "count": 79.87}
"""The paper's accuracies at 50 %."""
LAST = SHARES[-1]
ASK = Ask(RANGE, SLIDE, aggregates(["x"]))
VALUES: dict[str, Values] = {"x": lambda random, n: random.integers(0, 1_000, n).astype(np.float64)}


def oracle(found: Accuracies, share: float) -> list[float]:
    """Return the accuracy of the oracle's counts, of each stream."""
    coming = RATE * share * SLIDE / SECOND
    return [
        float(100 * accuracy(a.early["count_x"] + coming, a.final["count_x"])[a.full].mean())
        for a in found.plays[share]
    ]


def by_policy(seconds: int, *, whole: bool) -> str:
    """Return the accuracy of `lw.early_before(0.5)` in epochs of a second.

    Rows are at whole seconds, or spread over each second.
    """
    rows = generate(1, seconds, VALUES)
    if not whole:
        within = np.random.default_rng(1).integers(0, SECOND, len(rows.ts))
        ts = np.sort(rows.ts + within)
        rows = Rows.of(ts, ts, **rows.values)
    ends = np.arange(1, seconds * SECOND // SLIDE) * SLIDE
    play = Play.of(rows.punctuated(ends), ASK, np.arange(1, seconds + 1) * SECOND)
    raw, complete = (play.run(lw.early_before(LAST), e) for e in ESTIMATES)
    chosen = complete.full & complete.answered
    ahead = float((complete.ends - complete.early_at)[chosen].mean()) / SECOND
    off = float((complete.early["count_x"] / complete.final["count_x"])[chosen].mean()) - 1
    accurate = [f"{a.accuracy('count_x').mean():.2f} %" for a in (raw, complete)]
    told = f"raw {accurate[0]}, complete {accurate[1]}, on average {off:+.1%}"
    return f"asked {ahead:.2f} s ahead; {told}"


def check(found: Accuracies, near: float) -> list[Check]:
    """Return the shapes and whether they hold."""
    raw = {f: found.mean("raw", LAST, f"{f}_x") for f in ("sum", "count")}
    complete = {f: found.mean("complete", LAST, f"{f}_x") for f in ("sum", "count")}
    known = float(np.mean(oracle(found, LAST)))
    off = max(abs(g - 100 * s * SLIDE / RANGE) for s, g in found.gains.items())
    flat = {f: [found.mean("raw", s, f"{f}_x") for s in found.shares] for f in ("avg", "max")}
    return [
        Check(
            f"raw sum and count at 50 % are {EXPECTED} ± {near:g} % accurate",
            all(abs(v - EXPECTED) <= near for v in raw.values()),
            ", ".join(f"{f} {v:.2f} %" for f, v in raw.items()),
        ),
        Check(
            f"complete sum and count at 50 % reach {ORACLE:.0%} of the oracle or more",
            min(complete.values()) >= ORACLE * known,
            ", ".join(f"{f} {v:.2f} %" for f, v in complete.items()) + f"; oracle {known:.2f} %",
        ),
        linear(found, "x", LINE),
        Check(
            "avg and max stay above 98 % and degrade only slightly",
            all(min(v) > 98 and v[0] > v[-1] for v in flat.values()),  # noqa: PLR2004
            ", ".join(f"{f} {v[0]:.2f} → {v[-1]:.2f} %" for f, v in flat.items()),
        ),
        no_worse(found, ["x"]),
        Check(
            "latency gains grow linearly",
            off <= STRAIGHT,
            f"{min(found.gains.values()):.2f} → {found.gains[LAST]:.2f} %, off a line through zero "
            f"by {off:.2g} points",
        ),
    ]


def draw(found: Accuracies) -> Figure:
    """Draw accuracy and latency gain over aggressiveness."""
    figure, axes = canvas("Aggressiveness, uniform values", 2)
    curves(axes[0], found, "x", "mean")
    at = [100 * s for s in found.shares]
    axes[0].plot(
        at,
        [np.mean(oracle(found, s)) for s in found.shares],
        "k+",
        ms=9,
        label="count, oracle",
        zorder=4,
    )
    axes[1].plot(at, list(found.gains.values()), "o-", ms=5, color=BLUE)
    axes[1].set_ylim(bottom=0)
    axes[1].set_xticks(at)
    label(axes[0], "Accuracy of early results", "aggressiveness, % of the slide", "mean, %")
    label(axes[1], "Latency gain", "aggressiveness, % of the slide", "% of the final's latency")
    legend(axes[0], loc="lower left")
    return figure


class UniformValues(Experiment):
    """Accuracy and latency gain by aggressiveness, values uniform."""

    id = "P5"
    paper = "PROD, figure 4.6"
    title = "Aggressiveness, uniform values"
    reports = (
        "avg, max, sum, count of values uniform from 0 to 999, RANGE 30 s, SLIDE 10 s, "
        "aggressiveness 10 to 50 %: at 50 % avg is 99.03, max 99.93, sum 79.5, count 79.87 % "
        "accurate; sum and count degrade with aggressiveness, latency gains grow about linearly."
    )
    here = (
        "Aggressiveness is how long before a window's end it is asked for, in percent of the "
        "slide. Raw answers are what has arrived; complete ones make up for what has not. Means "
        "over full windows; the oracle knows the rate of the generator."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Ask for every window under each aggressiveness, raw and complete."""
        seeds, seconds = ((1,), 300) if quick else ((1, 2, 3, 4, 5), 2_000)
        shares = FEW_SHARES if quick else SHARES
        found = measure(ASK, VALUES, seeds=seeds, seconds=seconds, shares=shares)
        compared = [
            Comparison(
                f"{f} at 50 %",
                f"{paper:g} %",
                f"raw {spread(found.cells['raw', LAST, f'{f}_x'].means)}, complete "
                f"{spread(found.cells['complete', LAST, f'{f}_x'].means)}",
            )
            for f, paper in PAPER.items()
        ]
        compared.append(Comparison("oracle, count at 50 %", "–", spread(oracle(found, LAST))))
        if not quick:
            compared += [
                Comparison(
                    f"lw.early_before(0.5), epochs of 1 s, rows {word}",
                    "–",
                    by_policy(800, whole=whole),
                )
                for word, whole in (("at whole seconds", True), ("at any time", False))
            ]
        return Outcome(
            rows=found.rows("x", "mean"),
            compared=compared,
            checks=check(found, NEAR_QUICK if quick else NEAR),
            figure=draw(found),
            settings={"streams": len(seeds), "seconds each": seconds, "rows per second": RATE},
        )


EXPERIMENT = UniformValues()
