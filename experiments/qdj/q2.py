"""Q2: the slack that a target for all results so far gives (QDJ, figures 6.6 to 6.9).

The streams, windows and settings of Q1. The thesis leaves open how algorithm 2 takes the quality so
far into account; here the target of the next track is the quality that brings all results to the
target, if the track has as many results as the last one. A track complies if all results up to its
end do. The market feed, where it is present, stands beside the streams of the thesis; the shapes
are checked on the latter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from experiments.harness.contract import Check, Comparison, Experiment, Outcome
from experiments.harness.plot import INK, canvas, label, legend
from experiments.qdj.adaptive import JoinSettings
from experiments.qdj.q1 import COLOURS, MARKET, MARKET_GRANULE, Runs
from experiments.qdj.quality_runs import (
    GAINS,
    TARGETS,
    best,
    compliance,
    controlled,
    fixed,
    ours,
    row,
    thesis,
)
from experiments.reference.qdj import Pair
from experiments.streams.recordings import AbsentError, market_pair
from experiments.streams.soccer import SOCCER_16, SOCCER_23, generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 93.17
"""The least QCR that the thesis reports."""


def measure(
    streams: Mapping[str, Pair], targets: Sequence[float], gains: Sequence[tuple[float, float]]
) -> Runs:
    """Run every stream and target under all rules, and the rule of the thesis by track, too."""
    found = {}
    for name, stream in streams.items():
        asked = JoinSettings(granule=MARKET_GRANULE) if name == MARKET else JoinSettings()
        for target in targets:
            told = thesis(stream, target, asked, overall=True)
            tuned = (controlled(stream, target, g, overall=True) for g in gains)
            found[name, target] = {
                "thesis": told,
                "ours": ours(stream, target, asked, overall=True),
                "PD": best(tuned, target, told.buffer, overall=True),
                "no slack": fixed(stream, 0),
                "thesis by track": thesis(stream, target, asked),
                "ours by track": ours(stream, target, asked),
            }
    return found


def check(found: Runs, least: float) -> Iterator[Check]:
    """Return the shapes and whether they hold; our rule must meet its targets on every stream."""
    above = min(runs["ours"].overall - target for (_, target), runs in found.items())
    found = {k: runs for k, runs in found.items() if k[0] != MARKET}
    qcr = {
        k: {r: 100 * compliance(d, k[1], overall=True) for r, d in runs.items()}
        for k, runs in found.items()
    }
    for rule in ("thesis", "ours"):
        low = min(q[rule] for q in qcr.values())
        yield Check(f"QCR of {rule} is {least:g} % or more", low >= least, f"least {low:.2f} %")
    for rule in ("thesis", "ours"):
        saved = {k: 1 - r[rule].buffer / r[f"{rule} by track"].buffer for k, r in found.items()}
        yield Check(
            f"buffers of {rule} are smaller than by track",
            min(saved.values()) > 0,
            f"by {min(saved.values()):.0%} to {max(saved.values()):.0%}",
        )
    yield Check(
        "ours ends at or above every target", above >= 0, f"least {100 * above:+.3f} points"
    )
    # Where no slack at all is enough, no rule has anything to do.
    ahead = {
        k: qcr[k]["thesis"] - qcr[k]["PD"]
        for k, runs in found.items()
        if runs["no slack"].overall < k[1]
    }
    yield Check(
        "where slack is needed, the thesis' rule complies more often than PD with no longer buffer",
        min(ahead.values()) > 0,
        f"by {min(ahead.values()):.2f} to {max(ahead.values()):.2f} points",
    )


def draw(found: Runs) -> Figure:
    """Draw the quality so far, at the highest target of the last stream."""
    (name, target), runs = list(found.items())[-1]
    figure, (axes,) = canvas("Quality of all results so far")
    for rule, colour in COLOURS.items():
        axes.plot(100 * runs[rule].so_far, color=colour, lw=1.2, label=rule)
    axes.axhline(100 * target, color=INK, lw=0.8, ls="--")
    axes.set_ylim(100 * target - 100 * (1 - target), 100)
    label(axes, f"{name}, target {target:.0%}", "track", "quality so far, %")
    legend(axes, loc="lower right")
    return figure


class Overall(Experiment):
    """Slack by a target for all results so far."""

    id = "Q2"
    paper = "QDJ, figures 6.6 to 6.9"
    title = "Quality targets over all"
    reports = (
        "The same with the quality of all results so far as target: QCR is 93.17 % or more, "
        "buffers are smaller than by track; PD can end below its target (97.88 % at 98 %)."
    )
    here = (
        "QCR is the share of tracks at whose end all results so far are at or above the target. "
        "The rules and the choice of gains are those of Q1."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Run all streams, targets and rules."""
        games = [SOCCER_16.shortened(40)] if quick else [SOCCER_16, SOCCER_23]
        targets = (TARGETS[1],) if quick else TARGETS
        streams = {g.name: generate(g) for g in games}
        if not quick:
            with suppress(AbsentError):
                streams[MARKET] = market_pair()
        found = measure(streams, targets, GAINS[8:16:3] if quick else GAINS)
        rows = [
            row(n, t, r, d, overall=True) for (n, t), runs in found.items() for r, d in runs.items()
        ]
        ends = {k: runs["PD"].overall for k, runs in found.items()}
        worst = min(ends, key=lambda k: ends[k] - k[1])
        theirs = [(t, r["thesis"]) for (name, t), r in found.items() if name != MARKET]
        low = min(100 * compliance(run, t, overall=True) for t, run in theirs)
        compared = [
            Comparison("least QCR of the thesis' rule", "93.17 %", f"{low:.2f} %"),
            Comparison(
                "PD at the end, at its worst",
                "97.88 % at 98 %",
                f"{100 * ends[worst]:.2f} % at {worst[1]:.0%}",
            ),
        ]
        # A short run has few tracks, and the first ones begin without slack.
        checks = list(check(found, 80.0 if quick else LEAST))
        return Outcome(rows, compared, checks, draw(found), {"track ms": 1_000, "granule ms": 10})


EXPERIMENT = Overall()
