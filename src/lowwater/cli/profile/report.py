"""Prints the profile of a stream, and draws it as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Column, Table

from lowwater.cli.profile.disorder import COVERED, QUANTILES, Profile, watermark_text
from lowwater.cli.profile.query import QueryProfile
from lowwater.errors import LowwaterError, SpecError
from lowwater.ticks import TICKS_PER_SECOND

_REGULAR, _BURSTY = -0.3, 0.3


def print_profile(profile: Profile, plot: Path | None) -> None:
    """Print `profile`, the settings that suit it, and the path of its plot."""
    console = Console(highlight=False)
    grid = Table.grid(
        Column(style="bold", no_wrap=True), Column(max_width=88), padding=(0, 2, 0, 0)
    )
    for subject, text in _facts(profile).items():
        grid.add_row(subject, text)
    console.print(grid)
    console.print("\nSettings that suit it:\n")
    console.print(_settings(profile))
    if plot is not None:
        console.print(f"\nThe plot is in {plot}.")


def _facts(profile: Profile) -> dict[str, str]:
    rows = f"{profile.rows:,}"
    if profile.skipped:
        rows += f"; {profile.skipped:,} more have no time, or no arrival"
    facts = {"rows": rows, "in order": _order(profile), "late degree": _degrees(profile)}
    if (burst := _bursts(profile)) is not None:
        facts["bursts"] = burst
    if (silence := profile.silence()) is not None:
        facts["silence"] = (
            f"at most {profile.length(silence)}: with an idle timeout, windows close meanwhile"
        )
    return facts


def _order(profile: Profile) -> str:
    mean, recorded = f"{profile.in_order:.1%}", f"{profile.in_order_as_recorded:.1%}"
    if mean == recorded:
        return mean
    return f"{mean}, the mean over all orders of rows that arrived at once; as recorded {recorded}"


def _degrees(profile: Profile) -> str:
    quantiles = ", ".join(
        f"{q * 100:g}\N{NO-BREAK SPACE}% {profile.length(profile.late(q))}" for q in QUANTILES
    )
    return f"{quantiles}, at most {profile.length(int(profile.degrees.max()))}"


def _bursts(profile: Profile) -> str | None:
    peak, burstiness = profile.peak(), profile.burstiness
    if peak is None or burstiness is None:
        return None
    width, most, mean = peak
    how = "in bursts" if burstiness > _BURSTY else "regularly" if burstiness < _REGULAR else ""
    pattern = f"rows arrive {how or 'at random'} ({burstiness:+.2f} of −1 to 1)".replace("-", "−")
    return (
        f"{pattern}; the busiest {profile.length(width)} had {most:,} rows, "
        f"{most / mean:.1f} times the mean"
    )


def _settings(profile: Profile) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("for", justify="right")
    table.add_column("setting")
    table.add_column("in time", justify="right")
    for share in COVERED:
        covered = profile.covered(profile.slack(share))
        setting = f"--watermark '{watermark_text(profile, share)}'"
        table.add_row(f"{share * 100:g} %", setting, f"{covered * 100:.2f} %")
    return table


if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _FAINT, _BLUE, _RED = "#333333", "#a8a8a8", "#0072B2", "#C1121F"
_LEFT: dict[str, Any] = {"loc": "left", "fontsize": 11, "color": _INK}
_DASHES = ("dotted", "dashed", "solid")
_POINTS = 20_000
_UNITS = (("seconds", 1e6, 120.0), ("minutes", 6e7, 120.0), ("hours", 3.6e9, 72.0))


def draw(profile: Profile, path: Path, replayed: QueryProfile | None = None) -> None:
    """Save a plot of late degrees by arrival, and of the share of rows that a slack covers.

    With a replayed query, a third panel shows what completeness costs it.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise LowwaterError(
            "--plot needs matplotlib; install it with: pip install 'lowwater[demo]'"
        ) from missing
    ratios = [3, 2] if replayed is None else [3, 2, 2]
    figure = Figure(figsize=(12, 2 + sum(ratios)), layout="constrained", dpi=130)
    panels = figure.subplots(len(ratios), height_ratios=ratios)
    name, unit = _unit(profile)
    _arrivals(panels[0], profile, name, unit)
    _covered(panels[1], profile, name, unit)
    if replayed is not None:
        _frontier(panels[2], replayed)
    for axes in panels:
        _plain(axes)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as problem:
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise SpecError(
            f"--plot: {str(path)!r} cannot be written ({reason}); name another file, as in plot.png"
        ) from problem


def _unit(profile: Profile) -> tuple[str, float]:
    if not profile.timed:
        return "units", float(profile.per_unit)
    most = float(profile.degrees.max())
    fits = [(name, unit) for name, unit, limit in _UNITS if most <= limit * unit]
    return fits[0] if fits else ("days", 8.64e10)


def _arrivals(axes: Axes, profile: Profile, name: str, unit: float) -> None:
    # With many rows, only the largest late degree of each `step` neighbours is drawn.
    step = max(1, profile.rows // _POINTS)
    cut = profile.degrees[: profile.rows // step * step].reshape(-1, step)
    worst = cut.max(axis=1) / unit
    at = np.arange(len(worst)) * step
    axes.scatter(at, worst, s=4, lw=0, color=np.where(worst > 0, _BLUE, _FAINT))
    for share, dashes in zip(COVERED, _DASHES, strict=True):
        slack = profile.slack(share)
        label = f"a slack of {profile.length(slack)}, for {share * 100:g} %"
        axes.axhline(slack / unit, color=_RED, lw=1.2, ls=dashes, label=label)
    axes.legend(frameon=False, loc="upper right", labelcolor=_INK)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel(f"late degree, {name}")
    axes.set_xlabel("rows, in the order of arrival")
    axes.set_title(f"Late degrees: {profile.in_order:.1%} of rows are in order", **_LEFT)


def _covered(axes: Axes, profile: Profile, name: str, unit: float) -> None:
    shares = np.linspace(0, 1, 501)
    axes.plot(np.quantile(profile.degrees, shares) / unit, shares * 100, color=_BLUE, lw=1.8)
    for share, dashes in zip(COVERED, _DASHES, strict=True):
        axes.axvline(profile.slack(share) / unit, color=_RED, lw=1.2, ls=dashes)
    axes.set_xlim(0, max(1.5 * profile.slack(COVERED[-1]) / unit, 1e-9))
    axes.set_xlabel(f"slack, {name}")
    axes.set_ylabel("rows in time, %")
    axes.set_title("Rows in time by slack", **_LEFT)


def _frontier(axes: Axes, replayed: QueryProfile) -> None:
    """Draw completeness against the mean wait of all fixed slacks, on a logarithmic scale."""
    scale, name = (TICKS_PER_SECOND, "seconds") if replayed.timed else (1, "units")
    _, shares, waits = zip(*replayed.frontier.points(), strict=True)
    axes.step(np.array(waits) / scale, np.array(shares) * 100, color=_BLUE, lw=1.8, where="post")
    for one in replayed.prices:
        axes.plot(one.mean / scale, one.delivered * 100, "o", color=_RED, ms=4)
    axes.set_xscale("log")
    axes.set_xlabel(f"mean wait of the windows, {name}")
    axes.set_ylabel("rows in their windows, %")
    axes.set_title("What completeness costs the query", **_LEFT)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(colors=_INK, length=3)
    axes.grid(axis="y", color="#e6e6e6", lw=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
