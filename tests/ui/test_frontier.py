"""The frontier on the live page, in a real browser: shares, slacks and the slack in force."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

import lowwater as lw
from lowwater.query.start import RESULTS, start
from lowwater.sinks.sink import Outputs
from tests.ui.test_browser import CHROMIUM, FLAGS
from tests.wait import wait_until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium was found on the PATH")

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
FRONTIER = [[0.8, 0.0], [0.95, 2.7], [0.99, 4.9], [0.999, 300.0]]
STATED = "(q) => { Object.assign(Object.values(model.status.quality)[0], q); schedule_draw(); }"
KNOWN = "model.status && Object.keys(model.status.quality).length"


@pytest.fixture
def served(tmp_path):
    """The page of a query with a quality target, whose rows have ended."""
    rows = [{"ts": (START + timedelta(seconds=s)).isoformat()} for s in range(60)]
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    source = lw.files(tmp_path / "rows", format="json", schema="ts timestamp")
    stream = lw.stream(source, time="ts", watermark=lw.quality(0.95))
    query = stream.window(range="10 seconds").agg(n=lw.count())
    run = start(query.assembly, {RESULTS: Outputs()}, checkpoint=None, host="local")
    with lw.dashboard(run) as page:
        yield page
    run.stop()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(served, browser):
    page = browser.new_page()
    page.on("pageerror", lambda error: pytest.fail(f"the page failed: {error}"))
    page.goto(served.url)
    # Polled from here: the page refuses code in strings that it evaluates later by itself.
    wait_until(lambda: page.evaluate(KNOWN))
    yield page
    page.close()


def test_the_card_names_the_price_of_each_share_and_the_slack_in_force(page):
    page.evaluate(STATED, {"frontier": FRONTIER, "slack": 5.2})
    page.wait_for_selector("#frontier-card:not([hidden])")
    text = page.locator("#frontier-text").text_content()
    assert "95 % costs 2.7 s, 99 % costs 4.9 s, 99.9 % costs 5.0 min" in text
    assert "the slack in force is 5.2 s" in text
    assert "99.9 % costs 5.0 min" in page.locator("#chart-frontier").get_attribute("aria-label")
    page.locator("#table-frontier summary").click()
    page.wait_for_selector("#table-frontier td")
    cells = page.locator("#table-frontier tbody tr").all_text_contents()
    assert cells == ["99.9 %5.0 min", "99 %4.9 s", "95 %2.7 s", "80 %0 ms"]


def test_the_card_is_hidden_until_a_frontier_is_known(page):
    page.evaluate(STATED, {"frontier": [], "slack": 5.2})
    wait_until(lambda: page.evaluate("document.getElementById('frontier-card').hidden"))


@pytest.mark.parametrize(("slack", "place"), [(0.0, 0), (2.7, 1), (5.2, 2), (900.0, 3)])
def test_the_slack_in_force_stands_at_the_share_that_it_reaches(page, slack, place):
    found = page.evaluate("([f, slack]) => place_of(f, share_under(f, slack))", [FRONTIER, slack])
    assert found == place
