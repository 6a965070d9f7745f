"""How disordered a stream is, in words."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Column, Table

from lowwater.cli.profile.measuring import COVERED, QUANTILES, Profile, progress_for

_REGULAR, _BURSTY = -0.3, 0.3


def in_words(profile: Profile, plot: Path | None) -> None:
    """Print all of it."""
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
        console.print(f"\nThe picture is {plot}.")


def _facts(profile: Profile) -> dict[str, str]:
    rows = f"{profile.rows:,}"
    if profile.skipped:
        rows += f"; {profile.skipped:,} more have no time, or never arrived"
    facts = {"rows": rows, "in order": _order(profile), "late degree": _degrees(profile)}
    if (burst := _bursts(profile)) is not None:
        facts["bursts"] = burst
    if (silence := profile.silence()) is not None:
        facts["silence"] = (
            f"at most {profile.said(silence)}: with lull= the clock closes windows meanwhile"
        )
    return facts


def _order(profile: Profile) -> str:
    told, recorded = f"{profile.in_order:.1%}", f"{profile.in_order_as_recorded:.1%}"
    if told == recorded:
        return told
    return (
        f"{told}, in the mean over the orders of rows that arrived at once; as recorded {recorded}"
    )


def _degrees(profile: Profile) -> str:
    told = ", ".join(
        f"{q * 100:g}\N{NO-BREAK SPACE}% {profile.said(profile.late(q))}" for q in QUANTILES
    )
    return f"{told}, at most {profile.said(int(profile.degrees.max()))}"


def _bursts(profile: Profile) -> str | None:
    peak, burstiness = profile.peak(), profile.burstiness
    if peak is None or burstiness is None:
        return None
    width, most, mean = peak
    how = "in bursts" if burstiness > _BURSTY else "like a clock" if burstiness < _REGULAR else ""
    told = f"rows come {how or 'about by chance'} ({burstiness:+.2f} of −1 to 1)".replace("-", "−")
    return (
        f"{told}; the busiest {profile.said(width)} had {most:,} rows, "
        f"{most / mean:.1f} times the mean"
    )


def _settings(profile: Profile) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("for", justify="right")
    table.add_column("setting")
    table.add_column("in time", justify="right")
    for share in COVERED:
        covered = profile.covered(profile.slack(share))
        setting = f"--progress '{progress_for(profile, share)}'"
        table.add_row(f"{share * 100:g} %", setting, f"{covered * 100:.2f} %")
    return table
