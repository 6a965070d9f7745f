"""Accounts: what became of the rows, by operator, checked in every epoch (semantics 3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lowwater.control.log import Entry
from lowwater.errors import HostError

ACCOUNTS = ("admitted", "late", "outside", "malformed", "shed", "sidelined")
"""Where a row can have gone; their sum is the number of rows that came in (semantics 3)."""
TALLIES = (
    "in", *ACCOUNTS, "partly_late", "duplicates", "punctuations", "contradicted", "results",
)  # fmt: skip


def totals(
    before: Entry,
    measured: Iterable[Mapping[str, Any]],
    inputs: int,
    contradictable: Collection[int],
) -> dict[str, Any]:
    """Return the counts after an epoch; late rows of some operators contradict a punctuation."""
    ledgers = {n: dict(kept) for n, kept in before.totals.get("operators", {}).items()}
    fresh: dict[str, dict[str, int]] = {}
    shards = dict(before.totals.get("shards", {}))
    rows = list(before.totals.get("inputs", [0] * inputs))
    for m in measured:
        if "input" in m:
            rows[m["input"]] += m.get("rows", 0)
        for operator, counts in m.get("counts", {}).items():
            _add(fresh.setdefault(operator, {}), counts)
        if "shard" in m:
            place = f"{m['operator']}/{m['shard']}"
            *_, taken = shards.get(place, (0, 0, 0))
            came = m.get("admitted", 0) + m.get("late", 0)
            shards[place] = [m["cells"], m["bytes"], taken + came]
            _add(fresh.setdefault(str(m["operator"]), {}), m)
    for operator, counts in fresh.items():
        if int(operator) in contradictable:
            counts["contradicted"] = counts.get("late", 0) + counts.get("partly_late", 0)
        _check_balance(before.epoch + 1, operator, counts)
        _add(ledgers.setdefault(operator, {}), counts)
    return {"inputs": rows, "operators": ledgers, "shards": shards}


def _add(ledger: dict[str, int], counts: Mapping[str, Any]) -> None:
    for tally in TALLIES:
        if tally in counts:
            ledger[tally] = ledger.get(tally, 0) + counts[tally]


def _check_balance(epoch: int, operator: str, counts: Mapping[str, int]) -> None:
    came, found = counts.get("in", 0), sum(counts.get(a, 0) for a in ACCOUNTS)
    if found != came:
        told = ", ".join(f"{a} {counts.get(a, 0)}" for a in ACCOUNTS)
        raise HostError(
            f"rows do not balance after epoch {epoch} at operator {operator}: {came} came in, "
            f"{found} are accounted for ({told})"
        )
