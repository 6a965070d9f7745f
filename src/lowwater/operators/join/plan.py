"""The plan of a join: its condition, the columns of its results, and their watermarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

import pyarrow as pa

from lowwater.control.watermark import WatermarkPair, Watermarks
from lowwater.errors import SpecError
from lowwater.operators.join.answers import JoinAnswers
from lowwater.operators.join.band import Band, PartnerRange, SameWindow, open_from
from lowwater.operators.late import free, late_schema
from lowwater.operators.operator import GradualFlush
from lowwater.ticks import END
from lowwater.windows.axis import Axis

How = Literal["inner", "left", "right", "full", "anti"]
Time = Literal["self", "other", "min", "max", "both"]
SELF, OTHER = 0, 1
STEPS = 64
"""The number of parts in which a gradual flush emits rows without a partner."""


@dataclass(frozen=True)
class JoinPlan(JoinAnswers):
    """A join of two streams, self (port 0) and other (port 1), on equal keys and near times.

    `on` pairs key columns of self and other; if it is empty, all pairs with near times are results,
    and one shard processes all rows. `band` defines near times. `how` is as in SQL; "anti" returns
    the rows of self without a partner. `time` chooses the time of a result; "min" and "max" add a
    column for it. A column of other with the name of a column of self gets `suffix`. With `flush`,
    rows without a partner are emitted gradually. `pair_unit` is the unit of time, in ticks, in
    which made and lost pairs are counted; 0 if they are not counted.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    axes: tuple[Axis, Axis]
    on: tuple[tuple[str, str], ...]
    band: Band | SameWindow
    how: How = "inner"
    time: Time = "self"
    suffix: str = "_other"
    shards: int = 2
    flush: GradualFlush | None = None
    pair_unit: int = 0
    word: ClassVar[str] = "join"
    ports: ClassVar[int] = 2

    def __post_init__(self) -> None:
        for name, allowed in (("how", How), ("time", Time)):
            if getattr(self, name) not in get_args(allowed):
                known = ", ".join(get_args(allowed))
                raise SpecError(f"{name}={getattr(self, name)!r} is unknown; use one of {known}")
        if self.how == "anti" and self.time != "self":
            raise SpecError(
                f"time={self.time!r}: an anti join has only the columns of self; write time='self'"
            )
        if self.flush is not None and not any(self.preserved):
            raise SpecError(
                "flush= spreads rows without a partner, and an inner join has none: its pairs "
                "are emitted as they meet; leave flush= out"
            )
        if not self.suffix:
            raise SpecError(
                f"suffix={self.suffix!r} would give two columns the same name; write at least one "
                f"letter"
            )
        mine, other = self.axes
        if (mine.kind, mine.per_unit) != (other.kind, other.per_unit):
            raise SpecError(
                f"{mine.column!r} of type {mine.type} and {other.column!r} of type {other.type} "
                f"cannot be compared as times; cast one of them"
            )
        for pair in self.on:
            self.key_type(pair)

    def key_type(self, pair: tuple[str, str]) -> pa.DataType:
        """Return the type in which the two key columns of `pair` are compared."""
        types = [s.field(name).type for s, name in zip(self.schemas, pair, strict=True)]
        if types[0] == types[1]:
            return types[0]
        for like in (pa.types.is_signed_integer, pa.types.is_floating):
            if all(map(like, types)):
                return max(types, key=lambda t: t.bit_width)
        raise SpecError(
            f"on={pair!r}: types {types[0]} and {types[1]} cannot be compared; cast one of them"
        )

    @property
    def sequential(self) -> bool:
        """Whether a single shard must process all rows: true without key columns."""
        return not self.on

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """For each side: the columns that choose the shard of a row."""
        return tuple(tuple(pair[port] for pair in self.on) for port in (SELF, OTHER))

    @property
    def key_names(self) -> tuple[list[str], list[str]]:
        """The key columns of self, and those of other; each once."""
        mine, theirs = ([pair[port] for pair in self.on] for port in (SELF, OTHER))
        return list(dict.fromkeys(mine)), list(dict.fromkeys(theirs))

    @property
    def reaches(self) -> tuple[PartnerRange, PartnerRange]:
        """The partner range of a row of self, and the partner range of a row of other."""
        return self.band, self.band.inverse

    @property
    def preserved(self) -> tuple[bool, bool]:
        """For each side: whether its rows without a partner are results."""
        return self.how in {"left", "full", "anti"}, self.how in {"right", "full"}

    # -- columns of results ----------------------------------------------------------------------

    @cached_property
    def common(self) -> frozenset[str]:
        """The key columns with equal names on both sides: a result contains each of them once."""
        return frozenset(a for a, b in self.on if a == b)

    @cached_property
    def added(self) -> tuple[str, ...]:
        """The columns of other in a result, which follow the columns of self."""
        return tuple(n for n in self.schemas[OTHER].names if n not in self.common)

    @cached_property
    def names(self) -> tuple[dict[str, str], dict[str, str]]:
        """For each side: {column: its name in results}."""
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
        """The columns of self, then of other, then a time column if `time` is "min" or "max"."""
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
        """The type of the time column that "min" and "max" add."""
        mine, other = self.axes
        return mine.type if mine.type == other.type else mine.bound_type

    @cached_property
    def own_times(self) -> dict[Time, str]:
        """{side: column} for the results' time columns of self and other that are never NULL."""
        mine, other = (n[a.column] for n, a in zip(self.names, self.axes, strict=True))
        if self.how == "anti":
            return {"self": mine}
        times: dict[Time, str] = {} if self.preserved[OTHER] else {"self": mine}
        return times if self.preserved[SELF] else {**times, "other": other}

    @property
    def paired_times(self) -> Mapping[str, int]:
        """{column: side} for both time columns; empty unless all results have both times."""
        own = self.own_times
        return {own["self"]: SELF, own["other"]: OTHER} if len(own) == self.ports else {}

    @cached_property
    def result_times(self) -> tuple[str, ...]:
        """The result columns with the time that `time` chooses; two columns for "both"."""
        own = [names[axis.column] for names, axis in zip(self.names, self.axes, strict=True)]
        if self.time == "both":
            return tuple(own)
        if self.time in {"min", "max"}:
            return (free(f"time_{self.time}", [*self.names[0], *self.names[1].values()]),)
        return (own[SELF if self.time == "self" else OTHER],)

    @cached_property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row, for each side."""
        return tuple(late_schema(s) for s in self.schemas)

    # -- watermarks ------------------------------------------------------------------------------

    @property
    def rounds_marks(self) -> bool:
        """Whether watermarks are rounded down to window starts, because only these evict rows."""
        return isinstance(self.band, SameWindow)

    def align(self, port: int, mark: int) -> int:
        """Return the largest watermark ≤ `mark` at which the join evicts or flushes rows."""
        start, delay = self.band.align(mark), self.delay(1 - port)
        if mark >= END or not delay:
            return start
        step = max(1, delay // STEPS)
        return max(start + (mark - start) // step * step, self.band.align(mark - delay) + delay)

    def delay(self, port: int) -> int:
        """Return how many ticks the flush may delay a row of side `port` that has no partner."""
        return self.flush.delay if self.flush is not None and self.preserved[port] else 0

    def usable(self, port: int, marks: Watermarks) -> Watermarks:
        """Return only the watermark `low` of `marks`, rounded down by `align`."""
        return Watermarks(marks.low).mapped(lambda m: self.align(port, m))

    def marks_out(self, ports: Sequence[Watermarks]) -> Mapping[str, Watermarks]:
        """Return {name: watermarks} for each time column of the results, and for both jointly."""
        lows = [m.low for m in ports]
        progress = self.progress(*lows)
        marks = {name: Watermarks(progress[side]) for side, name in self.own_times.items()}
        if self.time in {"min", "max"}:
            marks[self.result_times[0]] = Watermarks(progress[self.time])
        if len(self.own_times) == self.ports:
            marks |= self._jointly(progress, *lows)
        return marks

    def _jointly(
        self, progress: Mapping[Time, int | None], mine: int | None, other: int | None
    ) -> dict[str, Watermarks]:
        """Return {name: joint watermarks} for the time columns of self and other (OOP 7).

        A future result contains a future row, so its two times are not both behind the watermarks.
        """
        on_self, on_other = progress["self"], progress["other"]
        first, second = self.own_times["self"], self.own_times["other"]
        if mine is None or other is None or on_self is None or on_other is None:
            return {both(first, second): Watermarks(), both(second, first): Watermarks()}
        return {
            both(first, second): Watermarks(on_self, pair=WatermarkPair(on_other, (mine, other))),
            both(second, first): Watermarks(on_other, pair=WatermarkPair(on_self, (other, mine))),
        }

    def explain(self) -> list[str]:
        """Return lines that describe the condition, the results and the state of the join."""
        keys = " and ".join(f"{a} = {b}" for a, b in self.on) or "(none: all rows near in time)"
        lines = [
            f"join        {self.how}, on {keys}",
            f"times       {self.band.say(self.axes[SELF])}",
            f"result      progresses on {' and '.join(self.result_times)}",
            "state       rows of each side, while a partner may arrive",
        ]
        if self.flush is not None:
            lines.append(f"unmatched   rows leave {self.flush.say(self.axes[SELF])}")
        if self.sequential:
            lines.append("shards      one, since any row may meet any other")
        return lines

    def progress(self, mark_self: int | None, mark_other: int | None) -> dict[Time, int | None]:
        """Return the results' watermark for each choice of `time`, given both sides' watermarks.

        A future pair contains a future row. A future row of self has a time `t ≥ mark_self` and
        partners at `first(t)` or later; the same holds for other. A row of self without a partner
        is either in state, with a time ≥ `inverse.first(mark_other)`, or will arrive, with a time
        ≥ `mark_self`. Under a gradual flush, `mark_other` is reduced by the delay. For a row
        without a partner, "min" and "max" are the row's own time.
        """
        if mark_self is None or mark_other is None:
            return dict.fromkeys(("self", "other", "min", "max"), None)
        mine, other = min(mark_self, END), min(mark_other, END)
        mine_met = open_from(self.band, other)  # first time of self that can get partners
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
        """Return the least time of rows of side `port` in state, if the other side is at `mark`."""
        behind = 0 if mark >= END else self.delay(port)
        return open_from(self.reaches[port], mark - behind)

    def mark_out(self, mark_self: int | None, mark_other: int | None) -> int | None:
        """Return the watermark of the results' time; for "both", the lower of two watermarks."""
        marks = self.progress(mark_self, mark_other)
        return marks["min" if self.time == "both" else self.time]


def both(first: str, second: str) -> str:
    """Return the name of the joint watermarks of two time columns in `marks_out`."""
    return f"{first}, {second}"


def _nullable(field: pa.Field, *, loose: bool) -> pa.Field:
    return field.with_nullable(field.nullable or loose)
