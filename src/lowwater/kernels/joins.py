"""The plan of a join: which rows belong together, what a result looks like, how far it has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, get_args

import pyarrow as pa

from lowwater.control import Marks, Pair
from lowwater.errors import SpecError
from lowwater.kernels.bands import Band, Reach, SameWindow, open_from
from lowwater.kernels.flush import Smooth
from lowwater.kernels.row_epoch import free, late_schema
from lowwater.windows import FOREVER, Axis

How = Literal["inner", "left", "right", "full", "anti"]
Time = Literal["self", "other", "min", "max", "both"]
SELF, OTHER = 0, 1
STEPS = 64
"""In so many steps rows without a partner leave, where they do little by little."""


@dataclass(frozen=True)
class JoinPlan:
    """A join of two streams, self (port 0) and other (port 1), on equal keys and near times.

    `on` pairs columns of self and other; without any, all pairs that are near in time are results,
    and one shard sees them all. `band` says which times belong together. `how` is as in SQL; "anti"
    gives the rows of self without a partner. `time` names what a result progresses on; "min" and
    "max" add a column for it. A column of other whose name is taken gets `suffix`. `smooth` gives
    rows without a partner out little by little. `remember` is how long (in ticks) rows that no
    partner can meet are remembered, to count the pairs that late rows have missed.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    axes: tuple[Axis, Axis]
    on: tuple[tuple[str, str], ...]
    band: Band | SameWindow
    how: How = "inner"
    time: Time = "self"
    suffix: str = "_other"
    shards: int = 2
    smooth: Smooth | None = None
    remember: int = 0
    word: ClassVar[str] = "join"
    ports: ClassVar[int] = 2

    def __post_init__(self) -> None:
        for name, allowed in (("how", How), ("time", Time)):
            if getattr(self, name) not in get_args(allowed):
                known = ", ".join(get_args(allowed))
                raise SpecError(f"{name}={getattr(self, name)!r} is unknown; use one of {known}")
        if self.how == "anti" and self.time != "self":
            raise SpecError(f"time={self.time!r}: an anti join has only the columns of self")
        if self.smooth is not None and not any(self.preserved):
            raise SpecError(
                "smooth= spreads rows without a partner, and an inner join has none: its pairs "
                "come out as they meet; leave it out"
            )
        if not self.suffix:
            raise SpecError(
                f"suffix={self.suffix!r} tells no columns apart; give at least one letter"
            )
        mine, other = self.axes
        if (mine.kind, mine.per_unit) != (other.kind, other.per_unit):
            raise SpecError(
                f"{mine.column!r}, a {mine.type}, and {other.column!r}, a {other.type}, cannot be "
                f"compared as times; cast one of them"
            )
        for pair in self.on:
            self.key_type(pair)

    def key_type(self, pair: tuple[str, str]) -> pa.DataType:
        """Return the type in which two key columns are compared."""
        types = [s.field(name).type for s, name in zip(self.schemas, pair, strict=True)]
        if types[0] == types[1]:
            return types[0]
        for like in (pa.types.is_signed_integer, pa.types.is_floating):
            if all(map(like, types)):
                return max(types, key=lambda t: t.bit_width)
        raise SpecError(
            f"on={pair!r}: a {types[0]} and a {types[1]} cannot be compared; cast one of them"
        )

    @property
    def sequential(self) -> bool:
        """Whether one shard must see all rows."""
        return not self.on

    def with_shards(self, shards: int) -> JoinPlan:
        """Return the plan for so many shards, or for one if it can have no more."""
        return replace(self, shards=1 if self.sequential else shards)

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns that say in which shard a row of each side is worked on."""
        return tuple(tuple(pair[port] for pair in self.on) for port in (SELF, OTHER))

    @property
    def reaches(self) -> tuple[Reach, Reach]:
        """Where the partners of a row of each side lie."""
        return self.band, self.band.inverse

    @property
    def preserved(self) -> tuple[bool, bool]:
        """Whether rows of each side come out when they have found no partner."""
        return self.how in {"left", "full", "anti"}, self.how in {"right", "full"}

    # -- what a result looks like ----------------------------------------------------------------

    @cached_property
    def common(self) -> frozenset[str]:
        """Key columns of the same name, which are one column of a result."""
        return frozenset(a for a, b in self.on if a == b)

    @cached_property
    def added(self) -> tuple[str, ...]:
        """The columns of other that follow those of self in a result."""
        return tuple(n for n in self.schemas[OTHER].names if n not in self.common)

    @cached_property
    def names(self) -> tuple[dict[str, str], dict[str, str]]:
        """What each column of self and of other is called in a result.

        A name that only other has stays as it is.
        """
        mine, theirs = self.schemas[SELF].names, self.schemas[OTHER].names
        taken = [*mine, *(n for n in theirs if n not in mine)]
        renamed = {}
        for name in theirs:
            clashes = name in mine and name not in self.common
            renamed[name] = free(name, taken, self.suffix) if clashes else name
            taken.append(renamed[name])
        return {n: n for n in mine}, renamed

    @cached_property
    def result_schema(self) -> pa.Schema:
        """All columns of self, then those of other, then the time if it is of both."""
        mine = list(self.schemas[SELF])
        if self.how == "anti":
            return pa.schema(mine)
        no_self, no_other = self.preserved[OTHER], self.preserved[SELF]
        fields = [
            self._common_field(f) if f.name in self.common else _nullable(f, loose=no_self)
            for f in mine
        ]
        for name in self.added:
            field = self.schemas[OTHER].field(name).with_name(self.names[OTHER][name])
            fields.append(_nullable(field, loose=no_other))
        if self.time in {"min", "max"}:
            fields.append(pa.field(self.result_times[0], self.time_type))
        return pa.schema(fields)

    def _common_field(self, mine: pa.Field) -> pa.Field:
        if not self.preserved[OTHER]:
            return mine
        theirs = self.schemas[OTHER].field(mine.name)
        either = pa.field(mine.name, self.key_type((mine.name, mine.name)))
        return either.with_nullable(mine.nullable or theirs.nullable)

    @property
    def time_type(self) -> pa.DataType:
        """The type of a time that is of either side."""
        mine, other = self.axes
        return mine.type if mine.type == other.type else mine.bound_type

    @cached_property
    def own_times(self) -> dict[Time, str]:
        """The columns that hold the times of self and other, where every result has one."""
        mine, other = (n[a.column] for n, a in zip(self.names, self.axes, strict=True))
        if self.how == "anti":
            return {"self": mine}
        found: dict[Time, str] = {}
        if not self.preserved[OTHER]:
            found["self"] = mine
        if not self.preserved[SELF]:
            found["other"] = other
        return found

    @cached_property
    def result_times(self) -> tuple[str, ...]:
        """The columns that a result progresses on."""
        own = [names[axis.column] for names, axis in zip(self.names, self.axes, strict=True)]
        if self.time == "both":
            return tuple(own)
        if self.time in {"min", "max"}:
            return (free(f"time_{self.time}", [*self.names[0], *self.names[1].values()]),)
        return (own[SELF if self.time == "self" else OTHER],)

    @cached_property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row of each side."""
        return tuple(late_schema(s) for s in self.schemas)

    # -- how far it has come ---------------------------------------------------------------------

    @property
    def rounds_marks(self) -> bool:
        """Whether rows are let go at certain times only."""
        return isinstance(self.band, SameWindow)

    def align(self, port: int, mark: int) -> int:
        """Return a mark that does what `mark` does; where rows leave little by little, roughly."""
        start, delay = self.band.align(mark), self.delay(1 - port)
        if mark >= FOREVER or not delay:
            return start
        step = max(1, delay // STEPS)
        return max(start + (mark - start) // step * step, self.band.align(mark - delay) + delay)

    def delay(self, port: int) -> int:
        """How long rows of a side without a partner may stay when no partner can come any more."""
        return self.smooth.delay if self.smooth is not None and self.preserved[port] else 0

    def usable(self, port: int, marks: Marks) -> Marks:
        """Return the mark that holds for all rows: keys have none of their own."""
        return Marks(marks.low).mapped(lambda m: self.align(port, m))

    def marks_out(self, ports: Sequence[Marks]) -> Mapping[str, Marks]:
        """Return the marks of all times that a result has."""
        found = self.progress(*(m.low for m in ports))
        told = {name: Marks(found[side]) for side, name in self.own_times.items()}
        if self.time in {"min", "max"}:
            told[self.result_times[0]] = Marks(found[self.time])
        if len(self.own_times) == self.ports:
            told |= self._jointly(found, *(m.low for m in ports))
        return told

    def _jointly(
        self, found: Mapping[Time, int | None], mine: int | None, other: int | None
    ) -> dict[str, Marks]:
        """Return the marks of both times together (OOP 7).

        A result still to come needs a row still to come, so it cannot be behind both marks.
        """
        on_self, on_other = found["self"], found["other"]
        first, second = self.own_times["self"], self.own_times["other"]
        if mine is None or other is None or on_self is None or on_other is None:
            return {both(first, second): Marks(), both(second, first): Marks()}
        return {
            both(first, second): Marks(on_self, pair=Pair(on_other, (mine, other))),
            both(second, first): Marks(on_other, pair=Pair(on_self, (other, mine))),
        }

    def explain(self) -> list[str]:
        """Say which rows join, and what is kept for how long."""
        keys = " and ".join(f"{a} = {b}" for a, b in self.on) or "(none: all rows near in time)"
        lines = [
            f"join        {self.how}, on {keys}",
            f"times       {self.band.say(self.axes[SELF])}",
            f"result      progresses on {' and '.join(self.result_times)}",
            "state       rows of each side, until the other side's mark says no partner can come",
        ]
        if self.smooth is not None:
            lines.append(f"unmatched   rows leave {self.smooth.say(self.axes[SELF])}")
        if self.sequential:
            lines.append("shards      one, since any row may meet any other")
        return lines

    def progress(self, mark_self: int | None, mark_other: int | None) -> dict[Time, int | None]:
        """Return the marks of results on each attribute, given the marks of both sides.

        A pair still to come needs a row still to come: one of self at `t ≥ mark_self`, whose
        partners lie at `first(t)` or later, or one of other at `u ≥ mark_other`, and the same.
        A row without partner comes out when no partner can come: it has arrived and waits, at
        `inverse.first(mark_other)` or later (of a mark before that, where rows leave little by
        little), or is still to come, at `mark_self` or later.
        Where a side has no row, "min" and "max" are the time of the other one.
        """
        if mark_self is None or mark_other is None:
            return dict.fromkeys(("self", "other", "min", "max"), None)
        mine, other = min(mark_self, FOREVER), min(mark_other, FOREVER)
        mine_met = open_from(self.band, other)  # the first of self that other's rows may meet
        other_met = open_from(self.band.inverse, mine)
        on_self = min(mine, self.left_from(SELF, other))
        on_other = min(other, self.left_from(OTHER, mine))
        latest = min(max(mine, other_met), max(other, mine_met))
        if self.preserved[SELF]:
            latest = min(latest, on_self)
        if self.preserved[OTHER]:
            latest = min(latest, on_other)
        return {"self": on_self, "other": on_other, "min": min(on_self, on_other), "max": latest}

    def left_from(self, port: int, mark: int) -> int:
        """Return the first time of a side's rows that may not have left, at a mark of the other."""
        behind = 0 if mark >= FOREVER else self.delay(port)
        return open_from(self.reaches[port], mark - behind)

    def mark_out(self, mark_self: int | None, mark_other: int | None) -> int | None:
        """Return the mark of results on the attribute they progress on, the lower one of both."""
        marks = self.progress(mark_self, mark_other)
        return marks["min" if self.time == "both" else self.time]


def both(first: str, second: str) -> str:
    """Name two times as one attribute that progresses."""
    return f"{first}, {second}"


def _nullable(field: pa.Field, *, loose: bool) -> pa.Field:
    return field.with_nullable(field.nullable or loose)
