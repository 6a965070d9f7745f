"""Whole numbers in the control log: arrays of counts, compressed to a short text.

Most counts of a learner are 0 or small, so a table of thousands of them takes some hundred bytes.
"""

from __future__ import annotations

import zlib
from base64 import b85decode, b85encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Counts: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class WholeNumbers:
    """An array of whole numbers, which does not change.

    >>> numbers = WholeNumbers(np.arange(6).reshape(2, 3))
    >>> WholeNumbers.from_json(numbers.to_json()) == numbers
    True
    """

    counts: Counts

    def to_json(self) -> list[Any]:
        """Return the shape and the compressed numbers."""
        return [list(self.counts.shape), self._text]

    @cached_property
    def _text(self) -> str:
        wide = np.ascontiguousarray(self.counts, "<i8")
        return b85encode(zlib.compress(wide.tobytes(), 6)).decode()

    @classmethod
    def from_json(cls, written: Sequence[Any]) -> WholeNumbers:
        """Return the array that `to_json` wrote."""
        shape, text = written
        flat = np.frombuffer(zlib.decompress(b85decode(text)), "<i8")
        return cls(flat.astype(np.int64).reshape(shape))

    def __eq__(self, other: object) -> bool:
        """Return whether both arrays have the same shape and numbers."""
        return isinstance(other, WholeNumbers) and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        """Return a hash of the numbers."""
        return hash(self._text)


def counts_of(numbers: WholeNumbers | None, shape: Sequence[int]) -> Counts:
    """Return the array of `numbers`; zeros of a shape for None."""
    return np.zeros(shape, np.int64) if numbers is None else numbers.counts
