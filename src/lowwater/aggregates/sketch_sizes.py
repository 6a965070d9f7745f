"""Sizes of sketches, and the error bounds that Apache DataSketches states for these sizes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from lowwater.errors import SpecError

ds: Any
"""The module of Apache DataSketches; None if it is not installed (some Pythons have no wheel)."""
try:
    ds = import_module("datasketches")
except ImportError:
    ds = None

_FULL = 0.75
"""The share of a frequent-items sketch's table that fills before the sketch drops values."""


def _within(name: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise SpecError(f"{name}={value!r} must be a whole number from {least} to {most}")
    if ds is None:
        raise SpecError(
            "a sketch needs the package datasketches, which is not installed: install it, or "
            "leave sketch= out"
        )


@dataclass(frozen=True)
class Kll:
    """A KLL sketch of about 3·k values (Karnin, Lang, Liberty 2016)."""

    function: ClassVar[str] = "kll"
    k: int = 200

    def __post_init__(self) -> None:
        _within("k", self.k, 8, 65535)

    @property
    def error(self) -> str:
        """The error bound of this size as text, from DataSketches."""
        share = ds.kll_doubles_sketch.get_normalized_rank_error(self.k, False)
        return f"rank within ±{100 * share:.2f} % in 99 % of cases (KLL, k={self.k})"


@dataclass(frozen=True)
class Hll:
    """A HyperLogLog sketch of 2^lg_k registers (Flajolet et al. 2007)."""

    function: ClassVar[str] = "hll"
    lg_k: int = 12

    def __post_init__(self) -> None:
        _within("lg_k", self.lg_k, 4, 21)

    @property
    def error(self) -> str:
        """The error bound of merged sketches of this size as text, from DataSketches."""
        share = abs(ds.hll_sketch.get_rel_err(True, True, self.lg_k, 1))
        return f"standard error {100 * share:.2f} % (HLL, lg_k={self.lg_k})"


@dataclass(frozen=True)
class FrequentItems:
    """A frequent-items sketch of at most 0.75 · 2^lg_k values (Anderson et al. 2017)."""

    function: ClassVar[str] = "frequent_items"
    lg_k: int = 10

    def __post_init__(self) -> None:
        _within("lg_k", self.lg_k, 3, 21)

    @property
    def capacity(self) -> int:
        """The number of distinct values up to which counts are exact."""
        return int(_FULL * 2**self.lg_k)

    @property
    def error(self) -> str:
        """The error bound of this size as text, from DataSketches."""
        share = ds.frequent_strings_sketch.get_epsilon_for_lg_size(self.lg_k)
        return (
            f"counts at most {100 * share:.2f} % of all values too high, exact up to "
            f"{self.capacity} different ones (frequent items, lg_k={self.lg_k})"
        )
