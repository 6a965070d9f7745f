"""Every cell of the table: it runs to the right answer, or raises the error of the cell."""

from __future__ import annotations

import warnings
from itertools import groupby

import pytest

import lowwater as lw
from lowwater.planner import compatibility as table
from lowwater.planner import labels
from scripts.compatibility import PAGE, page
from tests.reference.cells import Cell, cells

CELLS = list(cells())


def _part(cell: Cell) -> str:
    return f"{' and '.join(cell.features)}, {cell.operator or cell.window}"


PARTS = {part: list(members) for part, members in groupby(CELLS, _part)}


@pytest.mark.parametrize("part", PARTS)
def test_every_cell_gives_the_right_finals_or_its_error(part):
    for cell in PARTS[part]:
        if cell.rules:
            with pytest.raises(lw.SpecError) as refused:
                _run(cell)
            reasons = [f"{rule.reason}; {rule.remedy}" for rule in cell.rules]
            text = str(refused.value)
            assert any(_known(reason, text) for reason in reasons), f"{cell}: {text}"
        else:
            outcome = _run(cell)
            cell.check(outcome.results, outcome.dropped)


def _known(reason: str, text: str) -> bool:
    """Whether an error is that of a rule; the remedy may name the user's own value."""
    first, _, last = reason.partition("lw.slack(...)")
    return first in text and last in text


def _run(cell: Cell) -> lw.Outcome:
    query = cell.query()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.ShedWarning)
        # Three epochs: one to begin, one to go on from kept state, one to close most windows.
        return query.run(epochs=cell.epochs(8), host="local", **cell.options())


def test_every_label_of_a_rule_is_one_of_the_table():
    known = {*labels.FEATURES, *labels.WINDOWS, *labels.AGGREGATES, *labels.OPERATORS, "no groups"}
    for rule in table.RULES:
        assert {rule.feature, *rule.labels} <= known


def test_the_page_of_the_docs_is_made_from_the_table():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python scripts/compatibility.py"


def test_explain_names_the_features_that_go_with_a_query():
    told = Cell((), "session").query().explain(features=True)
    assert "feature     early_every: yes" in told
    assert "feature     since: no: a punctuation with since= completes" in told
