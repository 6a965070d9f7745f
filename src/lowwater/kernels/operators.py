"""What every operator of a plan says about itself. How it works is its kernel's business."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from lowwater.control import Marks
from lowwater.windows import Axis


class OperatorPlan(Protocol):
    """An operator: what comes in at its ports, what goes out, and how progress passes through."""

    @property
    def word(self) -> str:
        """What kind of operator it is."""

    @property
    def ports(self) -> int:
        """How many streams it takes in."""

    @property
    def shards(self) -> int:
        """In how many pieces it is worked on."""

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of rows at each port."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The attribute that each port progresses on."""

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each port that say in which shard a row is worked on."""

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of a result row."""

    @property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row of each port."""

    def with_shards(self, shards: int) -> OperatorPlan:
        """Return the plan for so many shards, or for one if it can have no more."""

    def usable(self, port: int, marks: Marks) -> Marks:
        """Return what the operator can use of a port's marks, rounded to where it acts on them."""

    def marks_out(self, ports: Sequence[Marks]) -> Mapping[str, Marks]:
        """Return the marks of the results, by the column that progresses (semantics 9)."""

    def explain(self) -> list[str]:
        """Say in lines what it does and what it keeps."""

    @property
    def rounds_marks(self) -> bool:
        """Whether it acts at certain positions only, to which marks are rounded."""
