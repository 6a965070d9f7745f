"""Runs and results in a notebook: what is shown, and that it follows the run."""

from __future__ import annotations

import re
import sys
import threading
import time
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

import lowwater as lw
from lowwater.ui.notebook import POLL_SECONDS, ROWS
from tests.ui.test_page import START, started, wait_for

__all__ = ["started"]
FEED = lw.feed("ts timestamp, k string, x double")


def outcome(seconds, **options):
    query = lw.stream(FEED, time="ts", watermark=lw.ordered()).window(range="10 seconds")
    rows = [(START + timedelta(seconds=s), k, float(s)) for s in seconds for k in ("a", "<b>")]
    return (
        query.group_by("k")
        .agg(n=lw.count(), top=lw.max("x"))
        .run(epochs={FEED: [[r] for r in rows]}, **options)
    )


def well_formed(html):
    """Read what is shown as strictly as XML; nothing in it may be asked of another server."""
    assert not re.search(r"https?:|src=|href=|<script|<link|@import", html)
    return ET.fromstring(f"<div>{html}</div>")  # noqa: S314


def texts(node):
    return [t.strip() for t in node.itertext() if t.strip()]


def test_results_are_a_table_and_a_plot_with_gaps_where_windows_are_missing():
    #  windows   [0, 10) [10, 20)    -     [30, 40) [40, 50)
    done = outcome([1, 11, 31, 41])
    shown = well_formed(done._repr_html_())
    assert "8: 8 admitted" in texts(shown)
    assert "8 results" in texts(shown)
    assert "<b>" in texts(shown)  # as text, not as markup
    lines = [p.get("d") for p in shown.iter("path") if p.get("stroke-width")]
    assert len(lines) == 2
    assert [re.sub(r"[^ML]", "", d) for d in lines] == ["MLML", "MLML"]
    assert shown.find(".//svg").get("aria-label") == "n of 8 finals, from 1 to 1"


def test_long_results_are_cut_and_counted():
    shown = well_formed(outcome(range(0, 200, 10))._repr_html_())
    assert f"40 results, of which these are the first {ROWS}" in texts(shown)
    body = shown.findall("table")[1].find("tbody")
    assert len(body) == ROWS


def test_results_that_went_elsewhere_are_not_shown():
    taken = []
    done = outcome([1], sink=lw.to_callback(lambda epoch, rows: taken.append((epoch, rows))))
    shown = well_formed(done._repr_html_())
    assert taken
    assert shown.find(".//svg") is None
    assert "2: 2 admitted" in texts(shown)


class Handle:
    """What IPython returns for what it has shown, to update it."""

    def __init__(self):
        self.updates = []

    def update(self, bundle, *, raw):
        assert raw
        self.updates.append(bundle)


@pytest.fixture
def notebook(monkeypatch):
    """The display protocol of IPython, as far as it is used; `kernel` as in a notebook."""
    handle, shown = Handle(), []
    shell = SimpleNamespace(kernel=object())

    def display(bundle, *, raw, display_id):
        assert raw
        assert display_id
        shown.append(bundle)
        return handle

    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython, module.display = (lambda: shell), display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return shown, handle, shell


def test_a_run_is_shown_and_followed_to_its_end(started, notebook):
    shown, handle, _ = notebook
    run, rows = started(lw.early_on_demand())
    threads = threading.active_count()
    run._ipython_display_()
    assert "none yet" in texts(well_formed(shown[0]["text/html"]))
    rows.send(0, 3, 12)
    rows.send(31)
    wait_for(lambda: any("<svg" in u["text/html"] for u in handle.updates))
    last = well_formed(handle.updates[-1]["text/html"])
    assert "[2024-05-01 12:00:00, 2024-05-01 12:00:10)" in texts(last)
    assert "rows 4: 4 admitted" in handle.updates[-1]["text/plain"]
    run.stop()
    wait_for(lambda: threading.active_count() <= threads - 1)
    told = len(handle.updates)
    time.sleep(2 * POLL_SECONDS)
    assert len(handle.updates) == told
    assert run._repr_html_() == handle.updates[-1]["text/html"]


def test_in_a_terminal_a_run_is_shown_once(started, notebook):
    shown, handle, shell = notebook
    del shell.kernel
    run, rows = started()
    run._ipython_display_()
    rows.send(0)
    wait_for(lambda: run.status()["in"] == 1)
    time.sleep(2 * POLL_SECONDS)
    assert (len(shown), handle.updates) == (1, [])
