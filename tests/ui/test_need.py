"""Needs on the live page: what was kept, and the sliders that change a need while it runs."""

from __future__ import annotations

import json
from datetime import timedelta
from urllib.request import Request, urlopen

import pytest

import lowwater as lw
from lowwater.engine.need_status import NeedStatus
from lowwater.query.options import RunOptions
from lowwater.query.start import RESULTS, start
from lowwater.sinks.sink import Outputs
from lowwater.ui.history import need_text

NEED = lw.need(fresh="5 seconds", right=0.9, exact="40 seconds", gives=("exact", "right"))


@pytest.fixture
def served(tmp_path):
    """A run with a need over a folder to which no file is added, and its page."""
    (tmp_path / "rows").mkdir()
    lines = [json.dumps({"ts": f"2024-05-01T12:00:{s:02}Z"}) for s in range(60)]
    (tmp_path / "rows" / "a.jsonl").write_text("\n".join(lines) + "\n")
    source = lw.files(tmp_path / "rows", format="json", schema="ts timestamp")
    query = lw.stream(source, time="ts").window(range="10 seconds").agg(n=lw.count())
    plan = query.planned(RunOptions(need=NEED))
    run = start(plan, {RESULTS: Outputs()}, checkpoint=None, host="local")
    with lw.dashboard(run, controls=True) as page:
        yield run, page
    run.stop()


def post(page, given):
    address = page.url.partition("?")[0] + "retune"
    headers = {"X-Lowwater-Token": page.token, "Content-Type": "application/json"}
    request = Request(address, json.dumps(given).encode(), headers, method="POST")  # noqa: S310
    with urlopen(request, timeout=20) as answer:  # noqa: S310
        return answer.read().decode()


def test_a_need_has_sliders_for_fresh_and_right_and_they_change_it(served):
    _, page = served
    assert page._settings() == {"need_fresh_seconds": 5.0, "need_right": 0.9}
    told = post(page, {"need": {"fresh": "8 seconds"}})
    assert told.strip() == "From the next decision on: need fresh 8 seconds."


def test_the_page_has_what_a_need_promised_and_kept():
    promised = {
        "fresh": timedelta(seconds=5),
        "exact": timedelta(seconds=40),
        "right": 0.9,
    }
    kept = {"fresh": 0.998, "right": None, "exact": 1.0}
    given_up = {"windows": 3, "fresh": 2, "exact": 0}
    assert need_text(NeedStatus(promised, kept, given_up, ("work: epochs take too long",))) == (
        "first answers within 5 seconds: 99.8 %; right: –; finals within 40 seconds: 100.0 %; "
        "windows dropped: 3; limited by work: epochs take too long"
    )
