"""The state of user-defined aggregates as bytes, without code that the query was not given.

A pickle names classes and functions, and Python imports and calls them when it reads the pickle. So
a pickle from elsewhere can run any code. Here, a pickle may name only the classes of plain data in
`PLAIN`, and the classes and functions that the query itself supplies: `lw.aggregate(state=...)`.
Those of the query are never imported by name; the reader takes the objects of the query.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import BuiltinFunctionType, FunctionType
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

from lowwater.errors import SpecError, StateError

Code: TypeAlias = type | Callable[..., Any]
"""A class or function that a pickle may name."""
StateCode: TypeAlias = Code | Sequence[Code] | Literal["any"]

_PROTOCOL = 5
_STACK_GLOBAL = b"\x93"
"""The only instruction of protocol 5 that names a class or a function."""
_NAMES = re.compile(rb"[ci\x82-\x84\x93]")
"""All instructions of any protocol that name a class or a function."""
_OWN = (__name__, "_own")

PLAIN: frozenset[tuple[str, str]] = frozenset({
    *(("builtins", name) for name in (
        "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list",
        "range", "set", "slice", "str", "tuple",
    )),
    *(("collections", name) for name in ("Counter", "OrderedDict", "defaultdict", "deque")),
    *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
    ("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID"), ("zoneinfo", "ZoneInfo"),
    ("numpy", "dtype"), ("numpy", "ndarray"), ("numpy._core.numeric", "_frombuffer"),
    ("numpy._core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "scalar"),
})  # fmt: skip
"""Classes and functions of plain data, as (module, name): every state may contain them."""


def _own(module: str, name: str) -> Any:
    """Stand for `StatePickle.own` in a pickle; the reader replaces it."""
    raise AssertionError(module, name)


@dataclass(frozen=True)
class StatePickle:
    """The format of one aggregate's state: `columns` name the aggregate in errors.

    `code` are the classes and functions of the query that the state may contain. With `trusted`,
    the state may contain all classes and functions that Python can import.
    """

    columns: tuple[str, ...] = ()
    code: tuple[Code, ...] = ()
    trusted: bool = False

    @classmethod
    def of(
        cls, columns: tuple[str, ...], state: StateCode | None, functions: Sequence[Any]
    ) -> StatePickle:
        """Return the format for the argument `state` of `lw.aggregate`.

        Classes among `functions`, the functions of the aggregate, need not be named again.
        """
        if state == "any":
            return cls(columns, trusted=True)
        given: Any = () if state is None else (state,) if callable(state) else state
        several = isinstance(given, Sequence) and not isinstance(given, str)
        if not several or not all(map(callable, given)):
            raise SpecError(
                f"state={state!r} must be a class, several classes, or 'any'; name the classes of "
                f"the objects that the functions return, for example state=Histogram"
            )
        classes = [f for f in functions if isinstance(f, type) and name_of(f) not in PLAIN]
        return cls(columns, tuple(dict.fromkeys([*given, *classes])))

    @cached_property
    def own(self) -> Mapping[tuple[str, str], Code]:
        """The classes and functions of the query by (module, name)."""
        return {name_of(code): code for code in self.code}

    def dumps(self, state: Any) -> bytes:
        """Return `state` as bytes; raise SpecError if it contains code that is not in `own`."""
        if self.trusted:
            return pickle.dumps(state, _PROTOCOL)
        if not self.code:
            # Most states are numbers and lists: they need no check of each part.
            try:
                payload = pickle.dumps(state, _PROTOCOL)
            except (pickle.PicklingError, AttributeError, TypeError):
                payload = _STACK_GLOBAL
            if _STACK_GLOBAL not in payload:
                return payload
        out = io.BytesIO()
        _Writer(out, self).dump(state)
        return out.getvalue()

    def loads(self, payload: bytes) -> Any:
        """Return the state that `dumps` wrote; raise StateError if it names other code."""
        if self.trusted or not _NAMES.search(payload):  # without names, a pickle is only data
            return pickle.loads(payload)  # noqa: S301
        return _Reader(io.BytesIO(payload), self).load()

    def copy(self, state: Any) -> Any:
        """Return a copy of `state`."""
        return self.loads(self.dumps(state))

    @property
    def function(self) -> str:
        """The call of `lw.aggregate`, for an error message."""
        of = self.columns[0] if len(self.columns) == 1 else list(self.columns)
        return f"lw.aggregate({of!r}, ...)"


def name_of(code: Any) -> tuple[str, str]:
    """Return (module, qualified name) of a class or function."""
    return str(getattr(code, "__module__", "")), str(getattr(code, "__qualname__", code))


class _Writer(pickle.Pickler):
    def __init__(self, out: io.BytesIO, state: StatePickle) -> None:
        super().__init__(out, _PROTOCOL)
        self.state = state

    def reducer_override(self, value: Any) -> Any:
        """Return how to write `value`. Called for each object that needs a class or function."""
        if isinstance(value, ZoneInfo) and value.key is not None:
            return ZoneInfo, (value.key,)
        if not isinstance(value, type | FunctionType | BuiltinFunctionType) or value is _own:
            return NotImplemented
        name = name_of(value)
        if self.state.own.get(name) is value:
            return _own, name
        if name in PLAIN:
            return NotImplemented
        word = name[1].rpartition(".")[2]
        raise SpecError(
            f"{self.state.function}: its state contains {'.'.join(name)}, which the query was not "
            f"given as code for state; add state={word}, or return plain data: numbers, text, "
            f"lists, dicts, times, arrays"
        )


class _Reader(pickle.Unpickler):
    def __init__(self, payload: io.BytesIO, state: StatePickle) -> None:
        super().__init__(payload)
        self.state = state

    def find_class(self, module: str, name: str) -> Any:
        """Return the class or function of that name. Called for each name in the pickle."""
        if (module, name) == _OWN:
            return self.own
        if (module, name) in PLAIN:
            return super().find_class(module, name)
        return self.own(module, name)

    def own(self, module: str, name: str) -> Code:
        """Return the query's class or function of that name; raise StateError if it has none."""
        code = self.state.own.get((module, name))
        if code is None:
            raise StateError(
                f"{self.state.function}: its state in the checkpoint contains {module}.{name}, "
                f"which the query was not given as code for state, so it is not loaded. If the "
                f"query wrote it, add state={name.rpartition('.')[2]}; otherwise the checkpoint "
                f"was altered: start with a new one, or restore it"
            )
        return code
