"""Figures of a run: those of its epochs add up to those of all of it."""

from __future__ import annotations

from lowwater.engine.metrics import EPOCH_COUNTS, metrics, of_epoch
from lowwater.local.host import LocalEpochs
from lowwater.ui.dashboard import exposition
from tests.engine.test_retune import CLOCK, EPOCHS, ROWS, query
from tests.ui.test_page import parsed


def test_figures_of_epochs_add_up_and_name_all_there_is():
    local = LocalEpochs(query(), CLOCK)
    told, before = [], None
    for n, table in enumerate(ROWS):
        local.run([[table]], last=[n == EPOCHS - 1])
        told.append(of_epoch(local.flow, before, before := local.status()))
    totals = {name: sum(one[name] for one in told) for name in EPOCH_COUNTS}
    status = local.status()
    assert totals["in"] == status["in"] == sum(map(len, ROWS))
    assert totals["shed"] == status["shed"] > 0
    assert totals["dropped_windows"] == status.dropped["windows"] > 0
    assert totals["early"] == status.prods["early"] > 0
    seen = parsed(exposition(metrics(local.flow, status)))
    assert sum(seen["lowwater_rows_total"].values()) == totals["in"]
    assert seen["lowwater_results_total"] == {(): totals["results"]}
    last, quality = told[-1], status.quality["window"]
    assert (last["quality"], last["quality_target"]) == (quality.measured, quality.target)
    kinds = {dict(labels)["kind"] for labels in seen["lowwater_quality_ratio"]}
    assert kinds <= {'"measured"', '"at_least"', '"overall"'}
    assert '"at_least"' in kinds
    slack = quality.slack["input 1"].total_seconds()
    labels = (("operator", '"window"'), ("input", '"input 1"'))
    assert seen["lowwater_slack_seconds"] == {labels: slack}
    operator = (("operator", '"window"'),)
    assert seen["lowwater_buffer_seconds"] == {operator: quality.buffer.total_seconds()}
    assert seen["lowwater_wait_seconds"] == {operator: quality.wait.total_seconds()}
    assert seen["lowwater_accuracy_ratio"] == {
        (("aggregate", '"n"'),): status.accuracy["n"].recent,
    }
