"""Prints the profile of a query: tables of prices and of early values, and a sentence per knee."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from lowwater.cli.policy_text import need_of
from lowwater.cli.profile.query import QueryProfile
from lowwater.cli.replay.length import percent, setting, short
from lowwater.cli.replay.windows import epoch_note
from lowwater.learners.frontier import Price
from lowwater.needs.part import DELAY, FINAL

MOST_COLUMNS = 4
"""The largest number of aggregates that the table of early values shows."""


def print_query(profile: QueryProfile, needs: Sequence[str] = ()) -> None:
    """Print what completeness costs the query, how right early values are, and what needs choose.

    `needs` are needs as text.
    """
    console = Console(highlight=False)
    console.print(f"\nThe query, replayed:  {' '.join(profile.query.text.split())}")
    console.print(profile.query.played, "\n", sep="")
    console.print(_prices(profile))
    console.print()
    for sentence in sentences(profile):
        console.print(sentence)
    for text in needs:
        console.print(need_sentence(profile, text))
    if (note := epoch_note(profile.query)) is not None:
        console.print(note)
    if profile.leads:
        finals = short(profile.finals, timed=profile.axis.kind == "time")
        console.print(f"\nEarly values, beside finals with a slack of {finals}:\n")
        console.print(_leads(profile))


def need_sentence(profile: QueryProfile, text: str) -> str:
    """Return what a need, given as text, chooses for the query."""
    need = need_of(text)
    delay = DELAY * profile.query.epochs.length
    within = max(need.fresh_ticks - delay, 0)
    share = profile.frontier.completeness(within)
    known = f"need {text}: by then windows have {percent(share)} of their rows"
    if share >= need.completeness:
        slack = min(profile.frontier.slack(FINAL), within)
        return f"{known}, so finals come first, with a slack of {_length(profile, slack)}."
    longest = profile.frontier.slack(FINAL)
    slack = longest if need.exact_ticks is None else min(longest, need.exact_ticks - delay)
    final = f"finals wait {_length(profile, max(slack, 0))}"
    return f"{known}, so early results come first; {final}."


def _length(profile: QueryProfile, ticks: float) -> str:
    return short(ticks, timed=profile.timed)


def _prices(profile: QueryProfile) -> Table:
    table = _table("complete", "mean wait", "95 % wait at most")
    table.add_column("setting")
    rows = {
        setting(profile.axis, one.slack): (
            percent(one.delivered),
            _length(profile, one.mean),
            _length(profile, one.most),
        )
        for one in profile.prices
    }
    for text, cells in rows.items():
        table.add_row(*cells, f"--watermark '{text}'")
    return table


def _table(*numbers: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def sentences(profile: QueryProfile) -> list[str]:
    """Return a sentence for each knee of the frontier: where a little more costs much more."""
    if not profile.knees:
        first, last = profile.prices[0], profile.prices[-1]
        costs = f"{_cost(profile, last)}, {_cost(profile, first)}"
        return [f"{costs}: no share is much dearer than the one before it."]
    return [f"{_cost(profile, a)}, {_cost(profile, b)}." for a, b in profile.knees]


def _cost(profile: QueryProfile, one: Price) -> str:
    share = f"{min(one.completeness * 100, 100):.2f}".rstrip("0").rstrip(".")
    return f"{share} % costs {_length(profile, one.mean)}"


def _leads(profile: QueryProfile) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("asked", no_wrap=True)
    names = list({name: None for one in profile.leads for name in one.accuracy})
    for name in ("answered", *(f"accuracy of {n}" for n in names[:MOST_COLUMNS])):
        table.add_column(name, justify="right")
    for one in profile.leads:
        accuracies = [
            f"{one.accuracy[n]:.3f}" if n in one.accuracy else "–" for n in names[:MOST_COLUMNS]
        ]
        table.add_row(_lead(profile, one.lead), percent(one.answered), *accuracies)
    return table


def _lead(profile: QueryProfile, lead: int) -> str:
    if lead == 0:
        return "at the end"
    return f"{_length(profile, abs(lead))} {'before' if lead > 0 else 'after'} the end"
