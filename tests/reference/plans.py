"""Whole plans by brute force: the story of every epoch, told by naive operators.

A `Twin` is a stream of Lowwater and what it means, built by the same words. `tell` goes through the
epochs:

    epoch n        every operator, from the sources on: the data of n are admitted, among them the
                   results that operators before it give in n; then the marks decided after n-1 act
    after epoch n  each input says how far it is; from that follow the marks of every port

`play` runs the streams on the local host, and `assert_same` compares the two stories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import lowwater as lw
from lowwater.engine.outputs import output_writers
from lowwater.local.host import LocalEpochs, blocks_of, until_the_end
from lowwater.operators.packet import table_of
from lowwater.sinks.sink import Outputs, Sink
from tests.reference.operators import (
    Aggregate,
    Distinct,
    InOrder,
    Input,
    Join,
    Operator,
    Port,
    Row,
    Rows,
    Way,
    tick,
)
from tests.reference.windows import TIME, Rule, Windows, normal

TALLIES = (
    "in", "admitted", "late", "partly_late", "outside", "malformed", "duplicates", "results",
    "punctuations",
)  # fmt: skip


# -- twins -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Twin:
    """A stream, and the ways that its rows take in the oracle."""

    stream: lw.Stream
    ways: tuple[Way, ...]

    @property
    def time(self) -> str:
        return self.stream.time

    def _span(self, ticks: int) -> Any:
        """A length on the stream's time."""
        timed = self.stream.axis(self.time).kind == "time"
        return timedelta(microseconds=ticks) if timed else ticks

    def where(self, text: str, keep: Callable[[Row], Any]) -> Twin:
        return self._after(self.stream.where(text), lambda r: r if keep(r) else None)

    def with_columns(self, make: Callable[[Row], Row], **texts: str) -> Twin:
        return self._after(self.stream.with_columns(**texts), lambda r: {**r, **make(r)})

    def select(self, *columns: str) -> Twin:
        return self._after(self.stream.select(*columns), lambda r: {c: r[c] for c in columns})

    def _after(self, stream: lw.Stream, step: Callable[[Row], Row | None]) -> Twin:
        return Twin(stream, tuple(replace(w, steps=(*w.steps, step)) for w in self.ways))

    def union(self, *others: Twin) -> Twin:
        ways = [w for twin in (self, *others) for w in twin.ways]
        return Twin(self.stream.union(*(o.stream for o in others)), tuple(ways))

    def _operated(self, stream: lw.Stream, operator: Operator) -> Twin:
        return Twin(stream, (Way(operator),))

    def distinct(self, *columns: str, within: int | None = None) -> Twin:
        chosen = columns or tuple(self.stream.schema.names)
        made = Distinct([Port(self.ways, self.time)], columns=chosen, within=within or 0)
        return self._operated(self.stream.distinct(*columns, within=within), made)

    def order(self) -> Twin:
        return self._operated(self.stream.order(), InOrder([Port(self.ways, self.time)]))

    def join(self, other: Twin, *, on: Sequence[str], band: tuple[int, int], **words: Any) -> Twin:
        near = tuple(map(self._span, band))
        stream = self.stream.join(other.stream, on=list(on) or None, band=near, **words)
        how = words.get("how", "inner")
        ports = [Port(self.ways, self.time), Port(other.ways, other.time)]
        names = (list(self.stream.schema.names), list(other.stream.schema.names))
        usual = {"right": "other", "full": "max"}.get(how, "self")
        time = words.get("time") or usual
        made = Join(ports, on=tuple(on), lo=band[0], hi=band[1], how=how, time=time, names=names)
        return self._operated(stream, made)

    def aggregate(
        self,
        windows: Windows,
        keys: Iterable[str] = (),
        *,
        on: Any = None,
        flush: Any = None,
        **named: tuple[Any, ...],
    ) -> Twin:
        windowed = self.stream.window(
            range=self._span(windows.range),
            slide=self._span(windows.slide),
            origin=windows.origin or None,
            on=on,
            flush=flush,
        )
        own = {
            n: getattr(lw, function)(*([] if column is None else [column]))
            for n, (function, column) in named.items()
        }
        stream = windowed.group_by(*keys).agg(**own)
        second = on[1] if isinstance(on, tuple) else None
        port = Port(self.ways, on or self.time)
        made = Aggregate([port], windows=windows, keys=tuple(keys), named=named, second=second)
        return self._operated(stream, made)


def source(
    schema: str, epochs: list[list[Row]], progress: Any, rule: Rule, *, consistent: bool = False
) -> Twin:
    """A feed that gives these epochs."""
    feed = lw.feed(schema)
    start = Input(feed, rule, consistent, epochs)
    return Twin(lw.stream(feed, time=TIME, watermark=progress), (Way(start),))


# -- the story of a plan ---------------------------------------------------------------------------


@dataclass
class Told:
    """What happened: by output and epoch its results, by operator its late rows and counts."""

    results: dict[str, list[list[Row]]]
    late: list[list[tuple[str, int, Row]]]
    counts: dict[str, dict[str, int]]
    cells: list[dict[str, int]]


def laid_out(twins: Iterable[Twin]) -> tuple[list[Input], list[Operator], list[Way]]:
    """Inputs and operators in the order in which plans are laid out, and the ways that leave."""
    inputs: list[Input] = []
    operators: list[Operator] = []

    def visit(found: Any) -> None:
        if isinstance(found, Input):
            if found not in inputs:
                inputs.append(found)
        elif found not in operators:
            for port in found.ports:
                for way in port.ways:
                    visit(way.origin)
            same = sum(o.word == found.word for o in operators)
            found.name = f"{found.word} {same + 1}" if same else found.word
            operators.append(found)

    out = []
    for twin in twins:
        bare = len(twin.ways) > 1 or isinstance(twin.ways[0].origin, Input)
        way = Way(Rows([Port(twin.ways, twin.time)])) if bare else twin.ways[0]
        visit(way.origin)
        out.append(way)
    return inputs, operators, out


def tell(now: Callable[[int], int] = lambda n: n, **twins: Twin) -> Told:
    """Go through the epochs. An empty one follows the last, which hears of the end."""
    inputs, operators, ways = laid_out(twins.values())
    told = Told({name: [] for name in twins}, [], {}, [])
    for n in range(max(len(i.epochs) or 1 for i in inputs) + 1):
        for start in inputs:
            start.take(n, now(n))
        for operator in operators:
            operator.run()
        for start in inputs:
            heard = next(o for o in operators for p in o.ports for w in p.ways if w.origin is start)
            heard.counts["punctuations"] += start.said
        for operator in operators:
            if not isinstance(operator, Rows):
                for port in operator.ports:
                    port.decide()
        for name, way in zip(twins, ways, strict=True):
            told.results[name].append([item.row for item in way.items()])
        told.late.append([(o.name, p, r) for o in operators for p, r in o.late])
        told.cells.append({o.name: c for o in operators if (c := o.cells()) is not None})
    told.counts = {o.name: {t: o.counts[t] for t in TALLIES} for o in operators}
    return told


# -- what Lowwater gives ---------------------------------------------------------------------------


class Noted(Sink):
    """A sink that remembers which epoch gave what."""

    def __init__(self) -> None:
        self.epochs: dict[int, list[Row]] = {}

    def write(self, epoch: int, rows: Any) -> None:
        self.epochs.setdefault(epoch, []).extend(rows.to_pylist())


def play(shards: int = 2, clock: Any = None, **twins: Twin) -> Told:
    """Run the streams of the twins on the local host, noting every epoch."""
    asked: Any = lw.together(**{name: twin.stream for name, twin in twins.items()})
    inputs, _, _ = laid_out(twins.values())
    given = {start.feed: start.epochs for start in inputs}
    assembly = asked.assembly.with_shards(shards)
    local = LocalEpochs(assembly, clock or lw.VirtualClock(per_epoch="1 second"))
    ways = output_writers(local.flow)
    sinks = {name: Outputs(Noted(), Noted(), Noted()) for name in ways}
    sources = [[s.table(rows) for rows in given[s]] for s in assembly.sources]
    told = Told({name: [] for name in twins}, [], {}, [])
    for n, (blocks, last) in enumerate(until_the_end([blocks_of(s) for s in sources])):
        packets = local.run(blocks, last=last)
        for name, way in ways.items():
            way.write(n, packets, sinks[name])
            told.results[name].append(sinks[name].results.epochs.get(n, []))
        told.cells.append(_cells(local))
        told.late.append(_late(local, packets))
    counts = local.status().operators
    told.counts = {o: {t: kept.get(t, 0) for t in TALLIES} for o, kept in counts.items()}
    return told


def _cells(local: LocalEpochs) -> dict[str, int]:
    found: Counter = Counter()
    for (number, _), shard in local.log.before(local.epoch).accounts.shards.items():
        found[local.flow.operators[number].name] += shard.cells
    return found


def _late(local: LocalEpochs, packets: Any) -> list[tuple[str, int, Row]]:
    return [
        (local.flow.operators[p.operator].name, p.port, row)
        for p in packets
        if p.kind == "late"
        for row in table_of(p).to_pylist()
    ]


def bag(rows: Iterable[Any]) -> Counter:
    """Rows as a multiset, whatever the order of their columns; times as positions."""
    return Counter(map(shown, rows))


def shown(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted((k, shown(v)) for k, v in value.items()))
    if isinstance(value, tuple):
        return tuple(map(shown, value))
    return tick(value) if isinstance(value, datetime) else normal(value)


def assert_same(found: Told, expected: Told) -> None:
    """Hold what a plan gave against what it means, epoch by epoch."""
    for name, epochs in expected.results.items():
        assert len(found.results[name]) == len(epochs)
        for n, rows in enumerate(epochs):
            assert bag(found.results[name][n]) == bag(rows), f"results of {name} in epoch {n}"
    for n, late in enumerate(expected.late):
        assert bag(found.late[n]) == bag(late), f"late rows in epoch {n}"
    assert found.counts == expected.counts
    for n, cells in enumerate(expected.cells):
        assert {o: found.cells[n].get(o, 0) for o in cells} == cells, f"stored in epoch {n}"
    assert not any(found.cells[-1].values()), "something is kept after the end"
