"""The picture of a stream's disorder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lowwater.cli.profile.measuring import COVERED, Profile
from lowwater.errors import LowwaterError, SpecError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _FAINT, _BLUE, _RED = "#333333", "#a8a8a8", "#0072B2", "#C1121F"
_LEFT: dict[str, Any] = {"loc": "left", "fontsize": 11, "color": _INK}
_DASHES = ("dotted", "dashed", "solid")
_POINTS = 20_000
_UNITS = (("seconds", 1e6, 120.0), ("minutes", 6e7, 120.0), ("hours", 3.6e9, 72.0))


def draw(profile: Profile, path: Path) -> None:
    """Save late degrees in the order of arrival, and the share of rows that a slack covers."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise LowwaterError(
            "--plot needs matplotlib; install it with: pip install 'lowwater[demo]'"
        ) from missing
    figure = Figure(figsize=(12, 7), layout="constrained", dpi=130)
    upper, lower = figure.subplots(2, height_ratios=[3, 2])
    name, unit = _unit(profile)
    _arrivals(upper, profile, name, unit)
    _covered(lower, profile, name, unit)
    for axes in (upper, lower):
        _plain(axes)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as problem:
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise SpecError(f"--plot: {str(path)!r} cannot be written: {reason}") from problem


def _unit(profile: Profile) -> tuple[str, float]:
    if not profile.timed:
        return "units", float(profile.per_unit)
    most = float(profile.degrees.max())
    fits = [(name, unit) for name, unit, limit in _UNITS if most <= limit * unit]
    return fits[0] if fits else ("days", 8.64e10)


def _arrivals(axes: Axes, profile: Profile, name: str, unit: float) -> None:
    # Of many rows the latest of each stretch are drawn: those in order look all the same.
    step = max(1, profile.rows // _POINTS)
    cut = profile.degrees[: profile.rows // step * step].reshape(-1, step)
    worst = cut.max(axis=1) / unit
    at = np.arange(len(worst)) * step
    axes.scatter(at, worst, s=4, lw=0, color=np.where(worst > 0, _BLUE, _FAINT))
    for share, dashes in zip(COVERED, _DASHES, strict=True):
        slack = profile.slack(share)
        label = f"a slack of {profile.said(slack)}, for {share * 100:g} %"
        axes.axhline(slack / unit, color=_RED, lw=1.2, ls=dashes, label=label)
    axes.legend(frameon=False, loc="upper right", labelcolor=_INK)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel(f"late degree, {name}")
    axes.set_xlabel("rows, in the order of arrival")
    axes.set_title(f"How late rows come: {profile.in_order:.1%} are in order", **_LEFT)


def _covered(axes: Axes, profile: Profile, name: str, unit: float) -> None:
    shares = np.linspace(0, 1, 501)
    axes.plot(np.quantile(profile.degrees, shares) / unit, shares * 100, color=_BLUE, lw=1.8)
    for share, dashes in zip(COVERED, _DASHES, strict=True):
        axes.axvline(profile.slack(share) / unit, color=_RED, lw=1.2, ls=dashes)
    axes.set_xlim(0, max(1.5 * profile.slack(COVERED[-1]) / unit, 1e-9))
    axes.set_xlabel(f"slack, {name}")
    axes.set_ylabel("rows in time, %")
    axes.set_title("What a slack covers", **_LEFT)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(colors=_INK, length=3)
    axes.grid(axis="y", color="#e6e6e6", lw=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
