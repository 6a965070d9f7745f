"""What the streams behind a query are called in its text, and what is done to them there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lowwater.errors import SpecError
from lowwater.query import Stream
from lowwater.query.nodes import Leaf, Stepped, United
from lowwater.sources import Step


class Names:
    """The names of streams: those that were given to a stream, then those of sources, in order."""

    def __init__(self, stream: Stream, names: Sequence[str], named: Mapping[str, Stream]) -> None:
        self._of = {}
        for name, given in named.items():
            if not isinstance(given, Stream):
                raise SpecError(f"cql({name}={given!r}): give a stream of the query")
            self._of[id(given.node)] = name
        found = list(dict.fromkeys(self._sources(stream)))
        several = [f"s{i + 1}" for i in range(len(found))] if len(found) > 1 else ["s"]
        if names and len(names) != len(found):
            one = "there is 1" if len(found) == 1 else f"there are {len(found)}"
            raise SpecError(f"cql{tuple(names)!r}: give a name for each stream; {one}")
        self._of |= dict(zip(found, names or several, strict=False))

    def of(self, stream: Stream) -> str | None:
        """Return what a stream is called, if it has a name; steps of its source come after it."""
        return self._of.get(id(stream.node))

    def _sources(self, stream: Stream) -> Iterator[int]:
        node = stream.node
        if id(node) in self._of:
            return
        if isinstance(node, Leaf):
            yield id(node)
            return
        for of in (node.of,) if isinstance(node, Stepped) else node.of:
            yield from self._sources(of)


class Peeled(NamedTuple):
    """A stream with a name, of an operator or a union, and the steps after it."""

    base: Stream
    steps: tuple[Step, ...] = ()


def peeled(stream: Stream, names: Names) -> Peeled:
    """Return what a stream is without the steps since its source or the last operator."""
    node = stream.node
    if isinstance(node, Leaf):
        return Peeled(stream, node.steps)
    if names.of(stream) is not None:
        return Peeled(stream)
    if isinstance(node, Stepped):
        before = peeled(node.of, names)
        return Peeled(before.base, (*before.steps, node.step))
    return _united(stream, names) if isinstance(node, United) else Peeled(stream)


def _united(stream: Stream, names: Names) -> Peeled:
    """Take off the steps that all streams of a union have in common: it was there before them."""
    assert isinstance(stream.node, United)  # noqa: S101
    parts = stream.node.of
    steps: tuple[Step, ...] = ()
    while True:
        found = _without_last(parts, names)
        if found is None:
            break
        parts, steps = found[0], (found[1], *steps)
    time = parts[0].time
    return Peeled(Stream(United(parts), parts[0].schema, time, parts[0].times), steps)


def _without_last(
    parts: tuple[Stream, ...], names: Names
) -> tuple[tuple[Stream, ...], Step] | None:
    nodes = [part.node for part in parts if names.of(part) is None]
    stepped = [node for node in nodes if isinstance(node, Stepped)]
    if len(stepped) < len(parts) or len({str(node.step) for node in stepped}) > 1:
        return None
    before = tuple(node.of for node in stepped)
    alike = all((p.schema, p.time) == (before[0].schema, before[0].time) for p in before)
    return (before, stepped[0].step) if alike else None
