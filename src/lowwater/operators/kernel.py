"""The contract of a kernel, and the registry that finds the kernel of a plan.

A kernel is a function (state, data, control) -> (state, emissions). The plan and the kernel of an
operator are in one module or folder, and the kernel registers itself for the class of the plan:

    @register(DistinctPlan)
    class DistinctKernel(RowKernel): ...

A new operator needs no edit here: if the kernel of a plan is not registered yet, `kernel_of`
imports every module of `lowwater.operators`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeAlias, TypeVar

from lowwater.errors import PlanError
from lowwater.operators.operator import OperatorPlan
from lowwater.operators.packet import Packet

META = "meta"
"""The name of the state entry with the watermarks and the index of the other entries."""
Composition: TypeAlias = tuple[str, ...]
"""The names of the strategies that a kernel is composed of."""


@dataclass
class Step:
    """The result of an epoch: changes to state (None deletes an entry), and packets to emit."""

    changes: dict[str, bytes | None] = field(default_factory=dict)
    emissions: list[Packet] = field(default_factory=list)


class Kernel(Protocol):
    """One epoch of one shard of an operator, built as `factory(plan, shard, state)`.

    - **Pure.** The result depends on plan, shard, state and packets alone: no clock, no randomness,
      no hash that differs between processes. A second run returns the same bytes.
    - **Inputs are not modified.** A kernel changes neither its state nor its packets; it returns
      the changes.
    - **Data before control.** Lateness is decided by the watermarks in force before the epoch;
      then the kernel acts on the watermarks in the control packets.
    - **Every row is accounted for.** The last emission is a measurement whose counts add up:
      admitted + late (+ outside + duplicates) is the number of rows received.
    - **Bounded state.** The kernel deletes state that no future row or watermark needs. An epoch
      without rows and without a new watermark changes nothing.
    - **Vectorised.** The number of Python calls does not grow with the number of rows.
    """

    def run(self, packets: Sequence[Packet]) -> Step:
        """Return the epoch's changes and emissions. Called once; `packets` are in arrival order."""


KernelFactory: TypeAlias = Callable[[Any, int, Mapping[str, bytes]], Kernel]


@dataclass(frozen=True)
class Registration:
    """The kernel of a plan class, and the compositions that the kernel supports.

    `composition` is the function that returns the composition of a plan.
    """

    factory: KernelFactory
    compositions: frozenset[Composition] = frozenset({()})
    composition: Callable[[Any], Composition] = lambda _: ()


_REGISTRY: dict[type, Registration] = {}
_Factory = TypeVar("_Factory", bound=KernelFactory)


def register(
    plan_class: type,
    compositions: frozenset[Composition] = frozenset({()}),
    composition: Callable[[Any], Composition] = lambda _: (),
) -> Callable[[_Factory], _Factory]:
    """Return a decorator that registers a kernel for the plan class `plan_class`."""

    def add(factory: _Factory) -> _Factory:
        _REGISTRY[plan_class] = Registration(factory, compositions, composition)
        return factory

    return add


@cache
def registered() -> Mapping[type, Registration]:
    """Import every operator, and return {plan class: registration} for all kernels."""
    package = import_module("lowwater.operators")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)
    return _REGISTRY


def kernel_of(plan: OperatorPlan) -> Registration:
    """Return the registration for the class of `plan`, or for its nearest registered base class."""
    exact = _REGISTRY.get(type(plan))
    if exact is not None:
        return exact
    for plan_class in type(plan).__mro__:
        if plan_class in registered():
            return registered()[plan_class]
    raise PlanError(
        f"{type(plan).__name__} has no kernel; put @register({type(plan).__name__}) above the "
        f"kernel in a module of lowwater.operators"
    )


@dataclass(frozen=True)
class StateOverlay(Mapping[str, bytes]):
    """A read-only view of `state` with `changes` applied; a change to None deletes the entry."""

    state: Mapping[str, bytes]
    changes: Mapping[str, bytes | None]

    def __getitem__(self, name: str) -> bytes:
        content = self.changes[name] if name in self.changes else self.state[name]
        if content is None:
            raise KeyError(name)
        return content

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self.state if name not in self.changes)
        yield from (name for name, content in self.changes.items() if content is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class StatePart(Mapping[str, bytes]):
    """A read-only view of the entries of `state` under `prefix`; their names omit the prefix."""

    state: Mapping[str, bytes]
    prefix: str

    def __getitem__(self, name: str) -> bytes:
        return self.state[self.prefix + name]

    def __iter__(self) -> Iterator[str]:
        mine = (name for name in self.state if name.startswith(self.prefix))
        return (name.removeprefix(self.prefix) for name in mine)

    def __len__(self) -> int:
        return sum(1 for _ in self)
