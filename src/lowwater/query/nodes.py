"""What a stream is made of: a source, a step after a stream, streams together, an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from lowwater.kernels import OperatorPlan
from lowwater.progress import Progress
from lowwater.sources import Step
from lowwater.sources.steps import Transform

if TYPE_CHECKING:
    from lowwater.query.stream import Stream


@dataclass(frozen=True, eq=False)
class Leaf:
    """A source, and how its progress is learned. `steps` are what its own engine does to rows."""

    source: Any
    progress: Progress
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, eq=False)
class Stepped:
    """A stream after a filter, or with other columns."""

    of: Stream
    step: Step
    transform: Transform


@dataclass(frozen=True, eq=False)
class United:
    """Streams of the same columns, flowing together."""

    of: tuple[Stream, ...]


@dataclass(frozen=True, eq=False)
class Operated:
    """The results of an operator over one or more streams."""

    plan: OperatorPlan
    of: tuple[Stream, ...]


Node: TypeAlias = Leaf | Stepped | United | Operated
