"""Records as JSON: what is written is read back, and another version is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from lowwater.codec import decode, encode
from lowwater.errors import StateError


class Kind(StrEnum):
    A = "a"


@dataclass(frozen=True)
class Inner:
    low: int | None = None
    pairs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Outer:
    VERSION: ClassVar[int] = 2
    name: str
    kind: Kind = Kind.A
    inner: Inner | None = None
    by_number: Mapping[int, Inner] = field(default_factory=dict)
    by_source: Mapping[str | int | bool | None, int] = field(default_factory=dict)
    several: tuple[Inner, ...] = ()


@dataclass(frozen=True, eq=False)
class Counts:
    counts: npt.NDArray[np.float64]


def test_a_record_comes_back_through_json():
    record = Outer(
        "x", Kind.A, Inner(3, ((1, 2),)), {4: Inner()}, {None: 1, "a": 2, 3: 4}, (Inner(1),)
    )
    assert decode(Outer, json.loads(json.dumps(encode(record)))) == record


def test_defaults_are_not_written():
    assert encode(Outer("x")) == {"version": 2, "name": "x"}


def test_arrays_are_lists_of_their_type():
    back = decode(Counts, json.loads(json.dumps(encode(Counts(np.array([1.0, 2.5]))))))
    assert back.counts.dtype == np.float64
    assert back.counts.tolist() == [1.0, 2.5]


def test_another_version_is_refused():
    with pytest.raises(StateError, match="version 1, but this version of Lowwater reads 2"):
        decode(Outer, {"version": 1, "name": "x"})


def test_a_record_that_does_not_fit_is_refused_by_name():
    with pytest.raises(StateError, match="record of Outer cannot be read"):
        decode(Outer, {"version": 2, "nome": "x"})
