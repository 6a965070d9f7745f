"""P8: bursts with and without sidelining (PROD, figure 6.3).

The paper's query is max(counter), RANGE 5 s, SLIDE 1 s, behind an expensive operator that bursts
overwhelm, prodded every second. Its records of a wireless network did not come with the text; they
are generated after the text on figures 1.5, 4.4 and 4.5: up to 300 rows in most seconds, 400
to 800 in seconds 30, 53, 54 and 62; the first burst is followed by low density, the others by
medium to high density, up to second 75; about 14,000 records. All but bursts are processed in time,
and without sidelining early results are needed until "past window 80": so the machine is near its
capacity.

The clock is simulated (`bursts`): 300 rows pass the expensive step in a second, and a row that is
held costs a twentieth of one that passes. The thesis never released the rows it held; Lowwater
releases one row for every twenty new ones, and more while the stream is idle.

An early result counts as needed if the final came more than a slide after the end of its window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREY, INK, ORANGE, canvas, label, legend
from experiments.streams.bursts import (
    COST,
    EVERY,
    MAX_DELAY,
    RANGE,
    SEED,
    SLIDE,
    BurstRun,
    Layout,
    Player,
    Stream,
    generate,
)
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIRELESS = Layout(
    95,
    {30: 780, 53: 640, 54: 560, 62: 800},
    low=range(31, 36),
    medium=(range(55, 62), range(63, 76)),
)
ONE_BURST = Layout(28, {8: 640, 9: 560}, medium=(range(10, 21),))
FLAT = 1.5
"""Seconds from a window's end up to which its final is on time: an epoch or two, and a bit."""


def after_bursts(stream: Stream, aside: BurstRun) -> list[int]:
    """Return the ends of windows that follow a burst and have no pane with held rows."""
    last = [(s + 1) * SECOND for s in stream.bursts if s + 1 not in stream.bursts]
    near = {b + n * SECOND for b in last for n in range(1, 4 * RANGE)}
    return [int(e) for e in stream.ends if int(e) in near and int(e) not in aside.aside]


def check(stream: Stream, plain: BurstRun, aside: BurstRun) -> list[Check]:
    """Return the shapes and whether they hold."""
    ends = [int(e) for e in stream.ends]
    exact = [sum(p.finals[e][0] == stream.exact(e) for e in ends) for p in (plain, aside)]
    after = after_bursts(stream, aside)
    worst = [max(p.age(e) for e in after) for p in (plain, aside)]
    needed = [needed_among(p, after) for p in (plain, aside)]
    overall = [needed_among(p, ends) for p in (plain, aside)]
    slowest = max(aside.age(e) for e in ends if e in aside.aside)
    return [
        Check(
            "all finals are exact, with held rows or without",
            exact == [len(ends)] * 2,
            f"{exact[0]} and {exact[1]} of {len(ends)}",
        ),
        Check(
            f"after a burst, finals are on time (within {FLAT:g} s) only with sidelining",
            worst[1] <= FLAT < worst[0],
            f"at most {worst[1]:.2f} s after the end of the window, without it {worst[0]:.2f} s",
        ),
        Check(
            "there, fewer early results are needed",
            needed[1] < needed[0],
            f"{needed[1]} of {len(after)} windows, without sidelining {needed[0]}",
        ),
        Check(
            "over all windows, those that wait among them, fewer are needed, too",
            overall[1] < overall[0],
            f"{overall[1]} of {len(ends)} windows, without sidelining {overall[0]}",
        ),
        Check(
            f"held rows are released within {MAX_DELAY}",
            slowest <= 60,  # noqa: PLR2004
            f"the last of these finals came {slowest:.2f} s after the end of its window",
        ),
    ]


def needed_among(played: BurstRun, ends: Sequence[int]) -> int:
    """Return how many of some windows had an early result, and their final only a slide late."""
    return sum(played.age(e) > SLIDE for e in ends if e in played.early)


def draw(stream: Stream, plain: BurstRun, aside: BurstRun) -> Figure:
    """Draw arrivals, and when finals and early results came."""
    figure, axes = canvas("Bursts, with and without sidelining", 3)
    counts = np.bincount(stream.ts // SECOND)
    axes[0].step(np.arange(len(counts)), counts, where="post", color=INK, lw=1.2)
    axes[0].axhline(SECOND / COST, color=GREY, lw=1, ls=":", label="capacity")
    label(axes[0], "Arrivals", "second", "rows per second")
    legend(axes[0], loc="upper left")
    top = 1.05 * max(p.age(int(e)) for p in (plain, aside) for e in stream.ends)
    for ax, played, name in zip(axes[1:], (plain, aside), ("without", "with"), strict=True):
        at = [int(e) for e in stream.ends]
        ax.plot([e / SECOND for e in at], [played.age(e) for e in at], "-", color=GREY, lw=1)
        held = [e for e in at if e in played.aside]
        free = [e for e in at if e not in played.aside]
        for ends, colour, kind in (
            (free, BLUE, "final"),
            (held, ORANGE, "final, rows held"),
        ):
            if ends:
                ages = [played.age(e) for e in ends]
                ax.plot([e / SECOND for e in ends], ages, "o", ms=4, color=colour, label=kind)
        ax.set_ylim(-0.05 * top, top)
        label(ax, f"Finals {name} sidelining", "end of window, s", "s after the end")
        legend(ax, loc="upper left")
    return figure


class Sidelining(Experiment):
    """Finals of windows in and after bursts, with and without sidelining."""

    id = "P8"
    paper = "PROD, figure 6.3"
    title = "Bursts: rows held"
    reports = (
        "max(counter), RANGE 5 s, SLIDE 1 s, behind an expensive operator, prodded every second: "
        "when the rows behind a prod of a burst-affected window are sidelined, the latency of "
        "finals of several following windows is low, and early results are needed less frequently; "
        "the rows that were sidelined were never processed."
    )
    here = (
        "Age is counted from the end of a window to its final. An early result is needed if the "
        "final is older than a slide. After a burst: the windows that end within four "
        "ranges of it and have no pane with held rows."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Play one stream in both ways; a quick run has one burst."""
        stream = generate(ONE_BURST if quick else WIRELESS)
        plain, aside = (Player(stream, sideline=way).play() for way in (False, True))
        after = after_bursts(stream, aside)
        return Outcome(
            rows=[
                _row(n, p, stream, after, aside) for n, p in (("without", plain), ("with", aside))
            ],
            compared=[
                Comparison(
                    "finals after a burst", "low latency", f"{_worst(aside, after):.2f} s or less"
                ),
                Comparison(
                    "early results needed, of all windows",
                    "many fewer with sidelining",
                    " against ".join(
                        str(needed_among(p, [int(e) for e in stream.ends])) for p in (aside, plain)
                    ),
                ),
                Comparison("without sidelining", "high", f"up to {_worst(plain, after):.2f} s"),
                Comparison(
                    "finals of windows with held rows",
                    "never",
                    f"exact, {_worst(aside, sorted(aside.aside)):.1f} s or less after the end",
                ),
            ],
            checks=check(stream, plain, aside),
            figure=draw(stream, plain, aside),
            settings={
                "rows": len(stream.ts),
                "rows processed per second": SECOND // COST,
                "cost of holding a row": "1/20",
                "one held row released for every": f"{EVERY} new ones",
                "most rows held": aside.most_aside,
                "seed": SEED,
            },
        )


def _worst(played: BurstRun, ends: Sequence[int]) -> float:
    return max(played.age(e) for e in ends if e in played.finals)


def _row(
    name: str, played: BurstRun, stream: Stream, after: Sequence[int], aside: BurstRun
) -> dict[str, Value]:
    ends = [int(e) for e in stream.ends]
    burst = [e for e in ends if e in aside.aside]
    return {
        "sidelining": name,
        "after a burst, windows": len(after),
        "greatest age s": _worst(played, after),
        "needed early": needed_among(played, after),
        "in a burst, windows": len(burst),
        "greatest age there s": _worst(played, burst),
        "needed early there": needed_among(played, burst),
        "early results": len(played.early),
    }


EXPERIMENT = Sidelining()
