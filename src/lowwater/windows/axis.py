"""The window attribute (axis), and the conversion of its values to ticks.

| column type | a tick is |
|---|---|
| timestamp, date, text in ISO 8601 | a microsecond |
| any integer | 1 |
| decimal(p, s) | 10^-s |
| float, double | a millionth |

Kernels compute with int64 ticks; `window.start` and `window.end` have the attribute's type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import SpecError
from lowwater.schema import is_number
from lowwater.ticks import instant_ticks, spoken, ticks

LIMIT = 2**61
"""Values beyond ±LIMIT are malformed, because window arithmetic on them would overflow int64."""

Kind = Literal["time", "number"]
_ZONE = r"[T ]\s*\d.*([zZ]|[+-]\d\d:?(\d\d)?)\s*$"
"""The end of a text with a time of day and a time zone."""


@dataclass(frozen=True)
class Axis:
    """A window attribute: its column, its Arrow type and the size of its tick."""

    column: str
    type: pa.DataType

    def __post_init__(self) -> None:
        t = self.value_type
        if not (pa.types.is_timestamp(t) or pa.types.is_date(t) or _is_text(t) or is_number(t)):
            raise SpecError(
                f"column {self.column!r} has type {t}: windows need an ordered attribute, "
                f"a timestamp, a date, text that reads as a timestamp, or a number; name or "
                f"compute such a column"
            )

    @property
    def value_type(self) -> pa.DataType:
        """The Arrow type of the values that `to_ticks` converts."""
        return self.type

    @cached_property
    def kind(self) -> Kind:
        """The kind of the attribute: time or number."""
        return "number" if is_number(self.value_type) else "time"

    @property
    def per_unit(self) -> int:
        """The number of ticks in one unit of a numeric attribute."""
        if pa.types.is_decimal(self.value_type):
            return int(10**self.value_type.scale)
        return 1_000_000 if pa.types.is_floating(self.value_type) else 1

    @cached_property
    def bound_type(self) -> pa.DataType:
        """The type of `window.start` and `window.end` in results."""
        if self.kind == "time":
            tz = self.value_type.tz if pa.types.is_timestamp(self.value_type) else "UTC"
            return pa.timestamp("us", tz)
        return pa.int64() if pa.types.is_integer(self.value_type) else self.value_type

    def span(self, value: Any, *, name: str) -> int:
        """Return a length in ticks; `value` is a duration, or a number if the axis is numeric."""
        if isinstance(value, int) and value == 0:
            return 0
        if self.kind == "number":
            return self._number(value, name)
        if isinstance(value, int | float | Decimal):
            raise SpecError(
                f"{name}={value!r} is a bare number, but {self.column!r} is a time; "
                f"write a duration like '10 seconds'"
            )
        return self._limited(ticks(value, name=name), value, name)

    def point(self, value: Any, *, name: str) -> int:
        """Return the position `value` on the attribute in ticks."""
        if self.kind == "time":
            return instant_ticks(value, name=name)
        return self._number(value, name)

    def _limited(self, at: int, value: Any, name: str) -> int:
        if abs(at) >= LIMIT:
            raise SpecError(
                f"{name}={value!r} exceeds the limit of {self.column!r}, of type {self.type}: "
                f"{LIMIT // self.per_unit:,}; give a smaller value"
            )
        return at

    def _number(self, value: Any, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise SpecError(
                f"{name}={value!r} does not fit {self.column!r}, of type {self.type}; give a number"
            )
        if not math.isfinite(value):
            raise SpecError(f"{name}={value!r} is not finite; give a number")
        # str() returns the decimal number that the user wrote; the binary value is inexact.
        scaled = Fraction(str(value)) * self.per_unit
        if scaled.denominator != 1:
            raise SpecError(
                f"{name}={value!r} is finer than {self.column!r} resolves: "
                f"type {self.type} is held in steps of 1/{self.per_unit}; give a multiple of that"
            )
        return self._limited(int(scaled), value, name)

    def say(self, span: int) -> str:
        """Return a length in ticks as text, in the unit of the attribute."""
        if self.kind == "time":
            return spoken(span)
        return str(span if self.per_unit == 1 else Decimal(span) / self.per_unit)

    def to_ticks(self, column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return (ticks, valid); NULL, NaN, unreadable and out-of-range values are not valid."""
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(values, pa.ChunkedArray):  # combine_chunks may return several chunks
            values = pa.concat_arrays(values.chunks)
        t = self.value_type
        if _is_text(t):
            return read_times(values)
        if pa.types.is_floating(t):
            return _from_floats(values, self.per_unit)
        if pa.types.is_decimal(t):
            return _from_decimals(values, t.scale)
        if pa.types.is_timestamp(t) or pa.types.is_date(t):
            return _from_times(values)
        if t == pa.uint64():
            beyond = pc.greater(values, pa.scalar(2**62, pa.uint64()))
            values = pc.if_else(beyond, pa.scalar(None, t), values)
        whole = values.cast(pa.int64())
        numbers = np.asarray(whole.fill_null(0))
        return numbers, _and_known((numbers < LIMIT) & (numbers > -LIMIT), whole)

    def value(self, tick: int | None) -> Any:
        """Return `tick` as a Python value of the attribute; None for None."""
        return None if tick is None else self.from_ticks(np.array([tick]))[0].as_py()

    def from_ticks(self, ticks: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
        """Return `ticks` as an array of `bound_type`, with NULL where `missing` is true."""
        whole = pa.array(ticks, pa.int64(), mask=missing)
        if self.kind == "time":
            return whole.cast(self.bound_type)
        if self.per_unit == 1:
            return whole
        if pa.types.is_decimal(self.value_type):
            unit = Decimal(1).scaleb(-self.value_type.scale)
            exact = [None if v is None else v * unit for v in whole.to_pylist()]
            return pa.array(exact, self.value_type)
        return pc.divide(whole.cast(pa.float64()), float(self.per_unit)).cast(self.value_type)


@dataclass(frozen=True)
class WindowTime(Axis):
    """The time of a window's result: the last tick in the window.

    The last tick is the window's end if `inclusive` (row windows), else the tick before the end.
    """

    inclusive: bool = False

    @property
    def value_type(self) -> pa.DataType:
        """The Arrow type of a window's end."""
        return self.type.field("end").type

    def to_ticks(self, column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return (ticks, valid) of a column of windows: the tick of a window is its last tick."""
        windows = pa.chunked_array(column) if isinstance(column, pa.Array) else column
        ends = pa.chunked_array([chunk.flatten()[1] for chunk in windows.chunks], self.value_type)
        ticks, valid = super().to_ticks(ends)
        return (ticks if self.inclusive else ticks - 1), valid


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t))


def _and_known(valid: np.ndarray, values: pa.Array) -> np.ndarray:
    """Return `valid`, with False for every NULL of `values`."""
    return valid if values.null_count == 0 else valid & np.asarray(values.is_valid())


def _from_times(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    unit = {pa.date32(): "D", pa.date64(): "ms"}.get(values.type) or values.type.unit
    narrow = values.view(pa.int32()).cast(pa.int64()) if unit == "D" else values.view(pa.int64())
    whole = np.asarray(narrow.fill_null(0))
    per = {"D": 86_400_000_000, "s": 1_000_000, "ms": 1_000}.get(unit, 1)
    valid = (whole < LIMIT // per) & (whole > -LIMIT // per)
    if unit == "ns":
        whole = whole // 1_000
    elif per > 1:
        whole = np.where(valid, whole, 0) * per
    return whole, _and_known(valid, narrow)


def _from_floats(values: pa.Array, per_unit: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.asarray(values.cast(pa.float64()).fill_null(math.nan))
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.rint(numbers * per_unit)
        valid = np.abs(scaled) < LIMIT
    return np.where(valid, scaled, 0).astype(np.int64), valid


def _from_decimals(values: pa.Array, scale: int) -> tuple[np.ndarray, np.ndarray]:
    as_int = [None if v is None else int(v.scaleb(scale)) for v in values.to_pylist()]
    valid = np.fromiter((v is not None and abs(v) < LIMIT for v in as_int), bool, len(as_int))
    ticks = [v if ok else 0 for v, ok in zip(as_int, valid, strict=True)]
    return np.array(ticks, np.int64), valid


def read_times(text: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return (ticks, valid) of ISO 8601 `text`; a time without a zone is UTC.

    >>> read_times(pa.array(["1970-01-01 00:00:01", "today"]))[1].tolist()
    [True, False]
    """
    dated = pc.match_substring_regex(text, r"^\s*\d{4}-\d").fill_null(False)
    zoned = pc.match_substring_regex(text, _ZONE).fill_null(False)
    ticks, valid = np.zeros(len(text), np.int64), np.zeros(len(text), bool)
    # pandas would give a time without a zone the zone of the time before it.
    for chosen in (pc.and_(dated, zoned), pc.and_not(dated, zoned)):
        rows = np.flatnonzero(np.asarray(chosen))
        ticks[rows], valid[rows] = _by_pandas(text.take(pa.array(rows)))
    # pandas parses into nanoseconds, whose largest time is in 2262.
    for i in np.flatnonzero(np.asarray(dated) & ~valid):
        try:
            ticks[i], valid[i] = instant_ticks(text[i].as_py().strip()), True
        except SpecError:
            continue
    return ticks, valid


def _by_pandas(text: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return (ticks, valid) of times that all have a zone, or all have none."""
    import pandas as pd

    read = pd.to_datetime(text.to_pandas(), format="ISO8601", errors="coerce", utc=True)
    valid = read.notna().to_numpy()
    return np.where(valid, read.dt.as_unit("us").astype("int64").to_numpy(), 0), valid
