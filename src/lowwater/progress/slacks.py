"""The adapter: chooses the slacks of all inputs together, after each track interval (QDJ 6.1.1).

It gathers late degrees, counts what was produced and what was lost, and lets rules choose. All it
knows is JSON, because it lives in the control log; what it says reaches the trackers as slack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowwater.control import Seen, Source
from lowwater.progress.adapted import number
from lowwater.progress.deciding import Deciding, Memory
from lowwater.progress.late_degrees import LateDegrees
from lowwater.progress.monitor import all_in_order, gathered

EPOCHS = 4
"""How many epochs tell how long a mark takes until it acts."""


@dataclass(frozen=True)
class Monitored:
    """An input whose late degrees are measured in granules.

    `by_source` if each source has a slack of its own, `largest` if the largest late degree is the
    slack.
    """

    number: int
    granule: int
    decay: float = 1.0
    by_source: bool = False
    largest: bool = False


class Slacks:
    """Chooses slacks; see `control.Adapter`."""

    def __init__(self, inputs: Sequence[Monitored], decisions: Sequence[Deciding]) -> None:
        self.inputs = {one.number: one for one in inputs}
        self.decisions = tuple(decisions)

    @property
    def settings(self) -> dict[str, Any]:
        """What can be changed while the query runs: the target, or those of several operators."""
        targets = {one.name: one.target for one in self.decisions}
        if not targets:
            return {}
        alike = len(set(targets.values())) == 1
        return {"quality": next(iter(targets.values())) if alike else targets}

    def tuned(self, values: Mapping[str, Any]) -> Slacks:
        """Return one with another target; late degrees and what was delivered stay known."""
        if "quality" not in values:
            return self
        target = values["quality"]
        number("quality", target, above=0.0, upto=1.0)
        decisions = [
            replace(one, target=float(target), rule=one.rule.aiming_at(float(target)))
            for one in self.decisions
        ]
        return Slacks(list(self.inputs.values()), decisions)

    def advance(
        self, memory: Mapping[str, Any], seen: Sequence[Seen], measured: Sequence[Mapping[str, Any]]
    ) -> tuple[Memory, Sequence[Seen]]:
        """Return what to remember after an epoch, and what was seen with the slacks to go by."""
        inputs = memory["inputs"] if memory else {str(n): _no_rows() for n in self.inputs}
        decided = memory["decisions"] if memory else [d.begin() for d in self.decisions]
        if measured:
            inputs = {n: self._gathered(int(n), kept, measured) for n, kept in inputs.items()}
            decided = [
                one.advance(kept, inputs, measured)
                for one, kept in zip(self.decisions, decided, strict=True)
            ]
            inputs = self._begun_anew(inputs, decided)
        known = {"inputs": inputs, "decisions": decided}
        return known, [self._told(n, one, known) for n, one in enumerate(seen)]

    def _gathered(self, number: int, kept: Memory, measured: Sequence[Mapping[str, Any]]) -> Memory:
        """Add the late degrees of an epoch to those of an input."""
        blocks = [m["late"] for m in measured if m.get("input") == number and "late" in m]
        if not blocks:
            return kept
        granule = self.inputs[number].granule
        if (plain := _in_order(kept, blocks)) is not None:
            return plain
        found = gathered(blocks, dict(map(tuple, kept["newest"])), granule)
        fresh = {s: LateDegrees.from_json(d) for s, d in kept["fresh"]}
        for source, more in found.degrees.items():
            fresh[source] = fresh[source] + more if source in fresh else more
        largest = dict(map(tuple, kept["largest"]))
        for source, degree in found.largest.items():
            largest[source] = max(degree, largest.get(source, 0))
        oldest = [t for t in (kept["oldest"], *(b[0][1] for b in blocks)) if t is not None]
        return {
            "newest": [list(pair) for pair in found.newest.items()],
            "oldest": min(oldest),
            "largest": [list(pair) for pair in largest.items()],
            "fresh": [[s, d.to_json()] for s, d in fresh.items()],
            "ends": [*kept["ends"], max(found.newest.values())][-EPOCHS - 1 :],
        }

    def _begun_anew(
        self, inputs: Mapping[str, Memory], decided: Sequence[Memory]
    ) -> Mapping[str, Memory]:
        """Let go what the rules have taken in."""
        pairs = list(zip(self.decisions, decided, strict=True))
        over = {n for one, kept in pairs if kept["ended"] for port in one.ports for n in port}
        over |= {n for n, one in self.inputs.items() if one.largest}
        calm = {n for one, kept in pairs if kept["calm"] for port in one.ports for n in port}
        after = dict(inputs)
        for n, kept in inputs.items():
            if int(n) in over:
                after[n] = {**kept, "fresh": []}
            elif int(n) in calm:
                after[n] = {
                    **kept,
                    "fresh": [[s, self._faded(int(n), d)] for s, d in kept["fresh"]],
                }
        return after

    def _faded(self, number: int, degrees: Memory) -> Memory:
        """Let rows in order count less, as a rule would, while none is asked."""
        decay = self.inputs[number].decay
        return {**degrees, "counts": [count * decay for count in degrees["counts"]]}

    def _told(self, number: int, seen: Seen, memory: Mapping[str, Any]) -> Seen:
        """Return what was seen of an input with the slack that was chosen for it.

        Where several operators have a say, with the largest.
        """
        one = self.inputs.get(number)
        if one is None:
            return seen
        slack, slacks = 0, dict[Source, int]()
        if one.largest:
            found = dict(map(tuple, memory["inputs"][str(number)]["largest"]))
            slack = max(found.values(), default=0)
            slacks = found if one.by_source else {}
        for d, kept in zip(self.decisions, memory["decisions"], strict=True):
            for port, chosen in zip(d.ports, kept["slacks"], strict=True):
                slack = max(slack, chosen) if number in port else slack
            for n, source, chosen in kept["sources"]:
                if n == number:
                    slacks[source] = max(chosen, slacks.get(source, 0))
        return replace(seen, slack=slack, slacks=slacks)


def _in_order(kept: Memory, blocks: Sequence[Any]) -> Memory | None:
    """Return what is known with blocks in which no row is late, if none has been late before.

    That is how most streams are most of the time, and no histogram has to be made for it.
    """
    if [d["bins"] for _, d in kept["fresh"]] != [[0]]:
        return None
    found = all_in_order(blocks, dict(map(tuple, kept["newest"])))
    if found is None:
        return None
    rows, newest = found
    ((source, degrees),) = kept["fresh"]
    (count,) = degrees["counts"]
    return {
        **kept,
        "newest": [[None, newest]],
        "fresh": [[source, {**degrees, "counts": [count + rows]}]],
        "ends": [*kept["ends"], newest][-EPOCHS - 1 :],
    }


def _no_rows() -> Memory:
    return {"newest": [], "oldest": None, "largest": [], "fresh": [], "ends": []}
