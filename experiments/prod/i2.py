"""I2: whether `lw.early_before(accuracy=...)` meets its target, and finds it again (PROD 6.2 c).

The paper proposes to adjust prodding by the measured accuracy of early results, without an
experiment. The stream is that of its generator, with rows anywhere in a second: geometric
numbers of rows per second, 20 in the mean; count, RANGE 30 s, SLIDE 10 s, or tumbling windows of
10 s; epochs are short against a slide. Either nothing changes, or from the middle of the run on
only a fourth of the rows come, or rows are late by up to 20 s, or no rows exist for 25 of 75 s, or
the rows of 25 of 75 s arrive together at the end of the 75 s.

The experiment judges three means of accuracy: of the windows after the first hundred, of the
hundred after the change, and of the rest. All windows that hold a row must have an early result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREEN, INK, ORANGE, canvas, label, legend
from experiments.prod.aggressiveness import RATE
from experiments.streams.prods import Ask, Play, Rows
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 1
RANGE, SLIDE = 30 * SECOND, 10 * SECOND
LATE = 20
"""How late rows are at most, in seconds."""
TARGETS = (0.95, 0.98, 0.99)
CHANGES = ("none", "a fourth of the rows", "rows late by up to 20 s")
GAPS = ("silences of 25 s", "stalls of 25 s")
"""The changes after which the stream pauses again and again: no rows, or no arrivals."""
ON, OFF = 50, 25
"""The lengths of a flow and of the pause after it, in seconds."""
SLACKS = {CHANGES[2]: LATE, GAPS[1]: OFF}
"""The slack by change, in seconds; otherwise 0."""
SLIDING, TUMBLING = "sliding", "tumbling"
RANGES = {SLIDING: RANGE, TUMBLING: SLIDE}
FULL = (
    *((SLIDING, change, target) for change in CHANGES for target in TARGETS),
    *((SLIDING, change, TARGETS[0]) for change in GAPS),
    *((TUMBLING, change, TARGETS[0]) for change in (*CHANGES, *GAPS)),
)
QUICK = ((SLIDING, CHANGES[0], TARGETS[1]), (TUMBLING, GAPS[0], TARGETS[0]))
"""The windows, changes and targets of a run, and of a quick one."""
ANSWERED = 0.99
"""The least share of windows with an early result."""
WARM_UP = 100
"""Windows that are not judged, and windows right after a change."""
NEAR = 0.01
NEAR_QUICK = 0.02
"""In a quick run, which judges few windows."""
MOST = 0.85
"""A lead, in slides, at which aggressiveness is at its maximum of one: less an epoch and a bit."""


def generate(change: str, seconds: int) -> Rows:
    """Return a stream that changes in the middle."""
    random, half = np.random.default_rng(SEED), seconds // 2
    counts = random.geometric(1 / RATE, seconds)
    if change == CHANGES[1]:
        counts[half:] = random.geometric(4 / RATE, seconds - half)
    ts = np.repeat(np.arange(seconds), counts) * SECOND
    ts = np.sort(ts + random.integers(0, SECOND, len(ts)))
    late = random.integers(0, LATE * SECOND, len(ts)) * (ts >= half * SECOND)
    phase = np.mod(ts, (ON + OFF) * SECOND)
    pausing = (ts >= half * SECOND) & (phase >= ON * SECOND)
    delay = {CHANGES[2]: late, GAPS[1]: pausing * ((ON + OFF) * SECOND - phase)}.get(change, 0)
    some = ~pausing if change == GAPS[0] else slice(None)
    return Rows.of(ts[some], (ts + delay)[some], x=np.zeros(len(ts[some])))


@dataclass(frozen=True)
class WindowAccuracies:
    """Windows in their order: accuracy, and how many slides before its end each was answered."""

    windows: str
    change: str
    target: float
    accuracy: np.ndarray
    lead: np.ndarray
    changed: int
    """The first window that ends after the change."""
    answered: float
    """The share of windows with an early result."""
    epoch: float
    """The length of an epoch, in slides; a result that is requested later is the final."""

    @property
    def parts(self) -> dict[str, slice]:
        """The windows that are judged."""
        if self.change == CHANGES[0]:
            return {"before": slice(WARM_UP, None)}
        settled = self.changed + WARM_UP
        return {
            "before": slice(WARM_UP, self.changed),
            "just after": slice(self.changed, settled),
            "after": slice(settled, None),
        }

    def off(self, part: str) -> float:
        """Return by how much a part misses its target; not at all if no prod could meet it.

        Such prods are as soon as possible and more accurate, or as late as possible and less.
        """
        some = self.parts[part]
        over, lead = float(self.accuracy[some].mean()) - self.target, self.lead[some].mean()
        soonest, latest = lead >= MOST, lead <= self.epoch
        return 0.0 if (over > 0 and soonest) or (over < 0 and latest) else abs(over)

    def row(self) -> dict[str, Value]:
        """Return a row of the table."""
        row: dict[str, Value] = {
            "windows": self.windows,
            "change": self.change,
            "target": self.target,
            "answered": self.answered,
        }
        for part in ("before", "just after", "after"):
            some = self.parts.get(part)
            row[part] = None if some is None else float(self.accuracy[some].mean())
            row[f"lead {part}, slides"] = None if some is None else float(self.lead[some].mean())
        return row


def steer(windows: str, change: str, target: float, seconds: int, epoch: int) -> WindowAccuracies:
    """Play a stream under a target."""
    rows, size = generate(change, seconds), RANGES[windows]
    ask = Ask(size, SLIDE, {"n": lw.count()}, lw.slack(f"{SLACKS.get(change, 0)} seconds"))
    ends = np.arange(size, (seconds - LATE) * SECOND, SLIDE)
    cuts = np.arange(epoch, (seconds + OFF) * SECOND + epoch, epoch)
    found = Play.of(rows, ask, cuts, ends).run(lw.early_before(accuracy=target), "complete")
    final = np.isfinite(found.final["n"])
    some = found.answered & final
    lead = (found.ends - found.early_at)[some] / SLIDE
    changed = int(np.searchsorted(found.ends[some], seconds // 2 * SECOND, "right"))
    accuracy, answered = found.accuracy("n", full=False) / 100, float(some.sum() / final.sum())
    return WindowAccuracies(
        windows, change, target, accuracy, lead, changed, answered, epoch / SLIDE
    )


def check(runs: Sequence[WindowAccuracies], near: float) -> list[Check]:
    """Return the shapes and whether they hold."""
    names = {
        "before": f"after {WARM_UP} windows, accuracy is within {near:g} of the target",
        "after": f"so it is again {WARM_UP} windows after a change",
    }
    least = min(runs, key=lambda run: run.answered)
    shown = f"least {least.answered:.4f}: {least.windows}, {least.change}, {least.target:g}"
    checks = [Check("windows have an early result", least.answered >= ANSWERED, shown)]
    for part, name in names.items():
        some = [run for run in runs if part in run.parts]
        if not some:
            continue
        worst = max(some, key=lambda run: run.off(part))
        mean, lead = (float(v[worst.parts[part]].mean()) for v in (worst.accuracy, worst.lead))
        told = (
            f"furthest {mean:.4f} for {worst.target:g}, {worst.windows}, change: {worst.change}, "
            f"lead {lead:.2f}"
        )
        checks.append(Check(name, worst.off(part) <= near, told))
    strict, loose = (
        [
            float(run.lead[run.parts["before"]].mean())
            for run in runs
            if run.target == target and run.windows == SLIDING and run.change in CHANGES
        ]
        for target in (max(TARGETS), min(TARGETS))
    )
    if strict and loose:
        shown = f"{np.mean(loose):.2f} and {np.mean(strict):.2f} slides"
        sooner = all(a > b for a, b in zip(loose, strict, strict=True))
        checks.append(Check("a lower target is prodded sooner", sooner, shown))
    return checks


def draw(runs: Sequence[WindowAccuracies]) -> Figure:
    """Draw running accuracies, of fifty windows each."""
    changes = list(dict.fromkeys(run.change for run in runs))
    figure, axes = canvas("Steering to an accuracy", len(changes), sharey=True)
    for ax, change in zip(axes, changes, strict=True):
        for run, colour in zip(
            [r for r in runs if r.change == change], (ORANGE, BLUE, GREEN, INK), strict=False
        ):
            mean = np.convolve(run.accuracy, np.full(50, 1 / 50), "valid")
            ax.plot(
                np.arange(len(mean)) + 49,
                mean,
                color=colour,
                label=f"{run.windows}, {run.target:g}",
            )
            ax.axhline(run.target, color=colour, lw=1, ls=":")
            if change != CHANGES[0]:
                ax.axvline(run.changed, color=INK, lw=1, ls=":")
        label(ax, f"change: {change}", "window", "mean accuracy of 50 windows")
        legend(ax, loc="lower right")
    return figure


class Steering(Experiment):
    """Accuracy under a target, and after changes of the stream."""

    id = "I2"
    paper = "PROD, section 6.2"
    title = "Steering to an accuracy"
    reports = (
        "nothing that was measured: as future work, aggressiveness could be adjusted by the "
        "accuracy that early results turn out to have."
    )
    here = (
        "count, RANGE 30 s, SLIDE 10 s, or tumbling windows of 10 s. Before: windows after the "
        "first hundred; just after: the hundred windows after the change; after: those that "
        "follow. Leads are in slides before the end of the window; below 0, after it. Where the "
        "results of the last epoch before the end miss the target, it cannot be met: later ones "
        "are finals."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Steer to all targets under all changes; a quick run has one of each."""
        seconds, epoch = (3_600, 2 * SECOND) if quick else (4_500, SECOND)
        runs = [steer(*one, seconds, epoch) for one in (QUICK if quick else FULL)]
        near = NEAR_QUICK if quick else NEAR
        settled = [(run, part) for run in runs for part in run.parts if part != "just after"]
        within = sum(run.off(part) <= near for run, part in settled)
        changed = [run for run in runs if "just after" in run.parts]
        return Outcome(
            rows=[run.row() for run in runs],
            compared=[
                Comparison(
                    f"within {near:g} of the target",
                    "not measured",
                    f"{within} of {len(settled)} intervals, before and after changes",
                ),
                *(
                    Comparison(
                        f"just after: {run.windows}, {run.change}, {run.target:g}",
                        "not measured",
                        f"off by {run.off('just after'):.4f}",
                    )
                    for run in changed
                ),
            ],
            checks=check(runs, near),
            figure=draw(runs),
            settings={"seconds": seconds, "seed": SEED},
        )


EXPERIMENT = Steering()
