"""Flipped bits: one bit at a random place of a checkpoint; the next start finds it or is exact."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from chaos.damage import flip_bit, part_of
from chaos.queries import QUERIES, ChaosQuery
from chaos.simulate import WrongError, live, verify, verify_part
from chaos.store import mounted
from chaos.world import CHECKPOINT, World, hook, instrumented


@dataclass(frozen=True)
class Stopped:
    """A query, and all files at the moment at which its run reached a point."""

    query: ChaosQuery
    point: str
    files: Mapping[str, bytes]


@dataclass
class Flips:
    """How many flipped bits were found, harmless or wrong, by kind of file."""

    found: Counter[str] = field(default_factory=Counter)
    harmless: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def merge(self, other: Flips) -> None:
        """Add the places of another report."""
        self.found.update(other.found)
        self.harmless.update(other.harmless)
        self.wrong += other.wrong

    @property
    def places(self) -> int:
        """The number of flipped bits."""
        return self.found.total() + self.harmless.total() + len(self.wrong)

    def text(self, seconds: float) -> str:
        """Return the report as text."""
        lines = [f"{'file':<16}{'found':>10}{'harmless':>10}"]
        lines += [
            f"{kind:<16}{self.found[kind]:>10}{self.harmless[kind]:>10}"
            for kind in sorted({*self.found, *self.harmless})
        ]
        lines.append(f"{self.places} bits flipped in {seconds:.0f} s, wrong: {len(self.wrong)}")
        return "\n".join([*lines, *self.wrong[:5]])


@cache
def _stopped() -> list[Stopped]:
    """Return each query as it is if a kill ends it, at every point of every epoch."""
    stopped: list[Stopped] = []
    for query in QUERIES:
        world = World.of(query)

        def stop(point: str, world: World = world, query: ChaosQuery = query) -> None:
            stopped.append(Stopped(query, point, dict(world.store.files)))

        with mounted(world.store), hook(stop), instrumented(world):
            world.live()
    return stopped


def run_flips(seeds: range) -> Flips:
    """Return the report of one flipped bit for each seed."""
    report = Flips()
    for seed in seeds:
        chosen = random.Random(seed)  # noqa: S311
        before = chosen.choice(_stopped())
        world = World.of(before.query)
        world.store.files = dict(before.files)
        path = _choose(chosen, world)
        bit = chosen.randrange(8 * len(world.store.files[path]))
        flip_bit(world, path, bit)
        try:
            found = _start(world)
        except WrongError as wrong:
            place = f"bit {bit} of {path}, {before.query.name} killed at {before.point}"
            report.wrong.append(f"  seed {seed}: {place}: {wrong}"[:2_000])
            continue
        (report.found if found else report.harmless)[part_of(path)] += 1
    return report


def _start(world: World) -> bool:
    """Start the query; return whether it was refused. Raise WrongError if an output is wrong."""
    with mounted(world.store), hook(None), instrumented(world):
        if not live(world, []):
            verify_part(world)
            return True
        verify(world)
        return False


def _choose(chosen: random.Random, world: World) -> str:
    """Return a file of the checkpoint, by size: of all, or of one kind, so that each is met."""
    sizes = {path: len(world.store.files[path]) for path in world.store.under(CHECKPOINT)}
    kinds = sorted({part_of(path) for path, size in sizes.items() if size})
    kind = chosen.choice([None, *kinds])
    paths = [path for path in sizes if kind in (None, part_of(path))]
    return chosen.choices(paths, [sizes[path] for path in paths])[0]
