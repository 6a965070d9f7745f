"""The cases: a window, a stream, and the plan of each side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from bench.data import EIGHT, FULL, LONG, ONE_OF_EIGHT, PAIR, SMALL, TINY, DataSet

Side = Literal["lowwater", "spark"]
Store = Literal["hdfs", "rocksdb"]


@dataclass(frozen=True)
class Case:
    """One query on one stream: count, sum and (by key) max over a window of `range` by `slide`.

    `asks` is "window", "join" (of two streams, keys equal, times at most 2 s apart) or
    "union" (of all streams, then the window). `fused` asks Lowwater to read the files
    itself; `paned` asks Spark for the hand-written plan of two chained aggregations;
    `store` is the state store that Spark is given; `watched` asks for the size of the
    state after each epoch; `prods` asks for the next window to end in every epoch.
    """

    name: str
    range: str
    slide: str
    data: DataSet
    store: Store
    keyed: bool = True
    fused: bool = False
    paned: bool = False
    watched: bool = False
    prods: bool = False
    asks: Literal["window", "join", "union"] = "window"


# The stores were measured with a tenth of the rows, in processor time: the one in memory
# ("hdfs") takes Spark a tenth (tumbling) to a fifth (paned, sliding) less than RocksDB where
# there are keys, and as much where there are none.
COMPARED = {
    case.name: case
    for case in (
        Case("sliding-60", "60 seconds", "1 second", FULL, store="hdfs"),
        Case("files-60", "60 seconds", "1 second", FULL, store="hdfs", fused=True),
        Case("sliding-600", "600 seconds", "1 second", SMALL, store="hdfs", keyed=False),
        Case("tumbling-10", "10 seconds", "10 seconds", FULL, store="hdfs"),
        Case("paned-60", "60 seconds", "1 second", FULL, store="hdfs", paned=True),
        Case("band-join", "", "", PAIR, store="hdfs", asks="join", fused=True),
        Case("band-join-frames", "", "", PAIR, store="hdfs", asks="join"),
    )
}
"""The cases with a Spark side, by the names that are printed."""

ALONE = {
    case.name: case
    for case in (
        Case("idle", "60 seconds", "1 second", TINY, store="rocksdb"),
        Case("state", "60 seconds", "1 second", LONG, store="rocksdb", watched=True),
    )
}
"""The cases that watch Lowwater alone: epochs with next to no rows, and many epochs."""

_SIXTY = Case("", "60 seconds", "1 second", FULL, store="rocksdb", fused=True)
TWINS = {
    "union-8": (
        replace(_SIXTY, name="union-8", data=EIGHT, asks="union"),
        replace(_SIXTY, name="one-of-8", data=ONE_OF_EIGHT),
    ),
    "prods": (replace(_SIXTY, name="prods", prods=True), replace(_SIXTY, name="no-prods")),
}
"""Lowwater against itself: a union against one stream of the same rows; a prod in every epoch
against none."""

EVERY = {
    **COMPARED,
    **ALONE,
    **{case.name: case for pair in TWINS.values() for case in pair},
}
