"""The JSON form of dataclasses, for the control log and the measurements of an epoch.

A record is a dataclass. It becomes a JSON object without the fields that equal their default, so
records are small, and records of an older version may lack a new field. A class with `VERSION`
writes its version and refuses to read another version. A class with `to_json` and `from_json` is
encoded and decoded by these methods. Mappings whose keys are not text become lists of pairs, tuples
and numpy arrays become lists, and enums become their values.

>>> from dataclasses import dataclass, field
>>> @dataclass(frozen=True)
... class Point:
...     x: int
...     tags: dict[int, str] = field(default_factory=dict)
>>> encode(Point(3, {1: "a"}))
{'x': 3, 'tags': [[1, 'a']]}
>>> decode(Point, {"x": 3})
Point(x=3, tags={})
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from lowwater.errors import StateError

T = TypeVar("T")
Json = Any
"""A JSON value: text, numbers, booleans, None, and lists and string-keyed dicts of these."""
Coder = Callable[[Any], Any]


def encode(record: Any) -> Json:
    """Return `record`, a dataclass or a plain value, as JSON."""
    if not is_dataclass(record):
        return _plain(record)
    kind: Any = type(record)
    return _writer(kind)(record)


def decode(cls: type[T], written: Json) -> T:
    """Return the record of class `cls` from its JSON; raise StateError if the JSON does not fit.

    A `written` value that is a record already is returned unchanged.
    """
    if is_dataclass(written):
        return written  # type: ignore[return-value]
    try:
        kind: Any = cls
        record: T = _reader(kind)(written)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"a record of {cls.__name__} cannot be read: {error!r}. The checkpoint was written by "
            f"another version, or is damaged; start with a new checkpoint"
        ) from error
    return record


def applied(generic: type[T], *arguments: type) -> type[T]:
    """Return a generic dataclass with its type variables bound to `arguments`, for `decode`.

    >>> from dataclasses import dataclass
    >>> from typing import Generic
    >>> @dataclass(frozen=True)
    ... class Box(Generic[T]):
    ...     content: T
    >>> decode(applied(Box, tuple[int, ...]), {"content": [1, 2]})
    Box(content=(1, 2))
    """
    return types.GenericAlias(generic, arguments)  # type: ignore[return-value]


def _plain(value: Any) -> Json:  # noqa: PLR0911  # one return per kind of value
    if is_dataclass(value) and not isinstance(value, type):
        return encode(value)
    if isinstance(value, Mapping):
        if all(isinstance(k, str) for k in value):
            return {k: _plain(v) for k, v in value.items()}
        return [[_plain(k), _plain(v)] for k, v in value.items()]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
        return value
    return [_plain(v) for v in value]


@cache
def _writer(cls: Any) -> Coder:
    if hasattr(cls, "from_json"):
        return lambda record: record.to_json()
    hints = get_type_hints(cls)
    parts = [(f.name, _encoder(hints[f.name]), _default(f)) for f in fields(cls) if f.init]
    version = getattr(cls, "VERSION", None)

    def write(record: Any) -> Json:
        written: dict[str, Any] = {} if version is None else {"version": version}
        for name, encoder, default in parts:
            value = getattr(record, name)
            comparable = type(value) is type(default) and not isinstance(value, np.ndarray)
            if value is default or (comparable and value == default):
                continue
            written[name] = value if encoder is _unchanged else encoder(value)
        return written

    return write


def _default(of: Field[Any]) -> Any:
    return of.default if of.default_factory is MISSING else of.default_factory()


@cache
def _encoder(hint: Any) -> Coder:
    """Return the function that encodes values of type `hint`."""
    if _is_json(hint):
        return _unchanged
    if is_dataclass(hint) and isinstance(hint, type):
        return encode
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [_encoder(a) for a in arguments if a is not type(None)]
        return _optional(kinds[0]) if len(kinds) == 1 else _plain
    if origin is tuple and arguments[1:] == (Ellipsis,):
        item = _encoder(arguments[0])
        return lambda values: [item(value) for value in values]
    if origin is Mapping and arguments[0] in (int, str):
        return _mapping_encoder(arguments[0], _encoder(arguments[1]))
    return _plain


def _optional(coder: Coder) -> Coder:
    return lambda value: None if value is None else coder(value)


def _mapping_encoder(key: type, encoder: Coder) -> Coder:
    if key is str:
        return lambda values: {k: encoder(v) for k, v in values.items()}
    return lambda values: [[k, encoder(v)] for k, v in values.items()]


def _is_json(hint: Any) -> bool:
    """Return whether values of type `hint` are JSON already: plain values, or sequences of them."""
    if hint in (int, float, str, bool, type(None), Ellipsis):
        return True
    sequence = get_origin(hint) in (list, tuple, Union, types.UnionType)
    return sequence and all(_is_json(a) for a in get_args(hint))


def _unchanged(value: Any) -> Any:
    return value


@cache
def _reader(hint: Any) -> Coder:  # noqa: PLR0911  # one return per kind of type
    """Return the function that decodes values of type `hint`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return _record_reader(hint)
    if is_dataclass(origin) and isinstance(origin, type):
        parameters = origin.__parameters__  # type: ignore[attr-defined]
        return _record_reader(origin, dict(zip(parameters, arguments, strict=True)))
    if origin in (Union, types.UnionType):
        kinds = [a for a in arguments if a is not type(None)]
        return _optional(_reader(kinds[0])) if len(kinds) == 1 else _unchanged
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_reader(*(_reader(a) for a in arguments))
    if origin is tuple and arguments[1:] != (Ellipsis,):
        items = [_reader(a) for a in arguments]
        return lambda written: tuple(i(one) for i, one in zip(items, written, strict=True))
    if isinstance(origin, type) and issubclass(origin, np.ndarray):
        return _array_reader(arguments)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        item = _reader(arguments[0])
        sequence = list if issubclass(origin, list) else tuple
        if item is _unchanged:
            return sequence
        return lambda written: sequence(item(one) for one in written)
    return hint if isinstance(hint, type) and issubclass(hint, Enum) else _unchanged


def _record_reader(cls: type, bound: Mapping[Any, Any] | None = None) -> Coder:
    if hasattr(cls, "from_json"):
        reader: Coder = cls.from_json
        return reader
    hints = {n: (bound or {}).get(hint, hint) for n, hint in get_type_hints(cls).items()}
    names = [f.name for f in fields(cls) if f.init]
    readers: dict[str, Coder] = {}
    encoded: set[str] = set()
    version = getattr(cls, "VERSION", None)

    def read(written: Any) -> Any:
        if not readers:
            readers.update({name: _reader(hints[name]) for name in names})
            encoded.update(name for name, reader in readers.items() if reader is not _unchanged)
        if version is not None and written.get("version") != version:
            raise StateError(
                f"a record of {cls.__name__} has version {written.get('version')}, but this "
                f"version of Lowwater reads {version}; start with a new checkpoint"
            )
        values = {n: v for n, v in written.items() if n != "version"}
        for name in values.keys() & encoded:
            values[name] = readers[name](values[name])
        return cls(**values)

    return read


def _mapping_reader(key: Coder, value: Coder) -> Coder:
    if key is value is _unchanged:
        return dict

    def read(written: Any) -> dict[Any, Any]:
        pairs = written.items() if isinstance(written, Mapping) else written
        return {key(k): value(v) for k, v in pairs}

    return read


def _array_reader(arguments: tuple[Any, ...]) -> Coder:
    kinds = get_args(arguments[1]) if len(arguments) > 1 else ()
    dtype = kinds[0] if kinds else None
    return lambda written: np.asarray(written, dtype)
