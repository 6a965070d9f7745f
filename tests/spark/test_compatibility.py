"""A fixed sample of the table's cells on Spark: the right finals, or the error of the cell."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowwater as lw
from lowwater.planner import labels
from tests.reference.cells import Cell

pytestmark = pytest.mark.spark

PLAIN = [
    *(Cell(("partition_by",), window) for window in labels.WINDOWS if window != "both times"),
    *(Cell(("allowed_lateness",), "sliding", kind) for kind in labels.AGGREGATES),
    Cell(("flush",)),
    Cell(("flush",), "gaps", "holistic"),
    Cell(("since",), "sliding"),
    Cell(("since",), "tumbling", "lift"),
    Cell(("by",), "session"),
    Cell(("per_source",), "named"),
    Cell(("consistent",), "row"),
    Cell(("quality share",), "sliding", "sketch"),
]
EARLY = [Cell(("early_every",), "sliding"), Cell(("early_every",), "landmark", "init")]
SHED = [Cell(("shed",), "sliding"), Cell(("shed",), "tumbling", "holistic")]
SIDELINE = [Cell(("sideline",), "sliding"), Cell(("sideline",), "tumbling", "sketch")]
REFUSED = [
    Cell(("since",), "session"),
    Cell(("since",), "tumbling", "init"),
    Cell(("since",), operator="second level"),
    Cell(("since",), operator="join"),
    Cell(("flush",), "sliding"),
    Cell(("flush",), "tumbling", "init"),
    Cell(("allowed_lateness",), "landmark"),
    Cell(("sideline",), "named"),
    Cell(("shed",), "rank"),
    Cell(("early_before",), "row"),
    Cell(("quality error",), operator="join"),
]


def test_there_are_forty():
    assert len([*PLAIN, *EARLY, *SHED, *SIDELINE, *REFUSED]) == 40


@pytest.mark.parametrize(
    "cells", [PLAIN, EARLY, SHED, SIDELINE], ids=["plain", "early", "shed", "held"]
)
def test_cells_that_work_give_the_right_finals(spark, cells):
    shared: dict = {}
    named = {f"q{n}": replace(cell, feeds=[], shared=shared) for n, cell in enumerate(cells)}
    queries = lw.together(**{name: cell.query() for name, cell in named.items()})
    # Three epochs: one to begin, one to go on from kept state, one to close most windows.
    epochs = {feed: rows for cell in named.values() for feed, rows in cell.epochs(8).items()}
    outcomes = queries.run(epochs=epochs, host="spark", shards=1, **cells[0].options())
    for name, cell in named.items():
        cell.check(outcomes[name].results, outcomes[name].dropped)


@pytest.mark.parametrize("cell", REFUSED, ids=str)
def test_cells_that_do_not_work_raise_their_error(spark, cell):
    with pytest.raises(lw.SpecError) as refused:
        _run(cell)
    assert any(rule.reason in str(refused.value) for rule in cell.rules)


def _run(cell: Cell) -> lw.Outcome:
    query = cell.query()
    return query.run(epochs=cell.epochs(), host="spark", **cell.options())
