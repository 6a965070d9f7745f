"""Accounting: counts of rows by operator and outcome, checked in every epoch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lowwater.control.measures import Counts, Measures
from lowwater.engine.entry import Accounts, Entry, ShardAccount
from lowwater.errors import HostError

ACCOUNTS = ("admitted", "late", "outside", "malformed", "shed", "sidelined")
"""The outcomes of a row; their counts add up to the number of rows received."""
TALLIES = (
    "in", *ACCOUNTS, "partly_late", "duplicates", "punctuations", "contradicted", "results",
    "overflows",
)  # fmt: skip


def accounts_after(
    before: Entry, measured: Measures, inputs: int, contradictable: Collection[int]
) -> Accounts:
    """Return the accounts after an epoch; raise HostError if the outcomes do not add up.

    Late and partly late rows at `contradictable` operators are also counted as contradicted.
    """
    accounts = before.accounts
    fresh: dict[int, dict[str, int]] = {}
    shards = dict(accounts.shards)
    rows = list(accounts.inputs or [0] * inputs)
    bad_files = list(accounts.bad_files or [0] * inputs)
    for block in measured.inputs:
        rows[block.input] += block.rows
        bad_files[block.input] += block.bad_files
    for operator, counts in measured.counts():
        _add(fresh.setdefault(operator, {}), counts)
    for m in measured.shards:
        place = m.operator, m.shard
        known = shards.get(place, ShardAccount())
        received = known.rows + m.counts.get("admitted", 0) + m.counts.get("late", 0)
        shards[place] = ShardAccount(m.cells, m.bytes, received)
        _add(fresh.setdefault(m.operator, {}), m.counts)
    operators = {n: dict(counts) for n, counts in accounts.operators.items()}
    for number, counts in fresh.items():
        if number in contradictable:
            counts["contradicted"] = counts.get("late", 0) + counts.get("partly_late", 0)
        _check_balance(before.epoch + 1, number, counts)
        _add(operators.setdefault(number, {}), counts)
    return Accounts(tuple(rows), operators, shards, tuple(bad_files) if any(bad_files) else ())


def _add(ledger: dict[str, int], counts: Counts) -> None:
    for tally in TALLIES:
        if tally in counts:
            ledger[tally] = ledger.get(tally, 0) + counts[tally]


def _check_balance(epoch: int, operator: int, counts: Mapping[str, int]) -> None:
    received, accounted = counts.get("in", 0), sum(counts.get(a, 0) for a in ACCOUNTS)
    if accounted != received:
        by_account = ", ".join(f"{a} {counts.get(a, 0)}" for a in ACCOUNTS)
        raise HostError(
            f"rows do not balance after epoch {epoch} at operator {operator}: it received "
            f"{received}, but {accounted} are accounted for ({by_account}). This is a bug in "
            f"Lowwater: the query stops before it emits wrong results; please report it"
        )
