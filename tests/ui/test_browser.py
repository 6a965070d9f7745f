"""The live page in a real browser: rows move, Refresh asks, a slider steers, strangers are refused.

Skipped where there is no Chromium. `LOWWATER_PICTURES=docs/images` saves the screenshot that the
docs show.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lowwater as lw
from lowwater.planner.early import prodded
from lowwater.query.options import RunOptions
from lowwater.query.start import RESULTS, start
from lowwater.sinks.sink import Outputs
from tests.wait import wait_until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium was found on the PATH")

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
QUERY = """SELECT segment, count(*) AS cars, avg(speed) AS speed
           FROM traffic [RANGE 2 minutes SLIDE 20 seconds] WHERE speed > 0 GROUP BY segment"""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


class Traffic:
    """Readings of three segments: each call writes some seconds of them, some of them late."""

    def __init__(self, folder):
        self.folder, self.second, self.written = folder, 0, 0
        self.waiting = []
        self.random = random.Random(7)

    def go_on(self, seconds, *, late=True):
        rows = [row for due, row in self.waiting if due <= self.second]
        self.waiting = [(due, row) for due, row in self.waiting if due > self.second]
        for at in range(self.second, self.second + seconds):
            for _ in range(3 + round(2 * math.sin(at / 120))):
                if late and self.random.random() < 0.04:
                    self.waiting.append((at + self.random.randint(10, 60), self.reading(at)))
                else:
                    rows.append(self.reading(at))
        self.second += seconds
        self.written += len(rows)
        aside = self.folder / ".tmp"
        aside.write_text("".join(json.dumps(row) + "\n" for row in rows))
        aside.rename(self.folder / f"{self.second:06d}.jsonl")

    def reading(self, at):
        ts = START + timedelta(seconds=at + self.random.random())
        speed = 60 + 15 * math.sin(at / 200) + self.random.gauss(0, 6)
        return {"ts": ts.isoformat(), "segment": self.random.randint(1, 3), "speed": speed}


def traffic_query(tmp_path, progress):
    folder = tmp_path / "traffic"
    folder.mkdir()
    schema = "ts timestamp, segment int, speed double"
    source = lw.files(folder, format="json", schema=schema, files_per_epoch=1)
    stream = lw.stream(source, time="ts", watermark=progress)
    return lw.sql(QUERY, traffic=stream), Traffic(folder)


@pytest.fixture
def run(tmp_path):
    made, traffic = traffic_query(tmp_path, lw.slack("15 seconds"))
    started = start(
        prodded(made.assembly, lw.early_before(0.0)),
        {RESULTS: Outputs()},
        checkpoint=None,
        host="local",
    )
    yield started, traffic
    started.stop()


@pytest.fixture
def overloaded(tmp_path):
    """The same with a quality target, and with windows left out."""
    progress = lw.quality(0.99)
    made, traffic = traffic_query(tmp_path, progress)
    shed = lw.shed(share=0.5, max_gap=6)
    asked = RunOptions(early=lw.early_before(0.5), shed=shed).plan(made.assembly)
    started = start(asked, {RESULTS: Outputs()}, checkpoint=None, host="local")
    yield started, traffic
    started.stop()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


def opened(browser, url, asked, *, dark=False):
    scheme = "dark" if dark else "light"
    page = browser.new_page(viewport={"width": 1280, "height": 1000}, color_scheme=scheme)
    page.set_default_timeout(20_000)
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: pytest.fail(f"the page failed: {error}"))
    page.goto(url)
    return page


def test_rows_move_refresh_asks_and_the_slider_steers(run, browser):
    query, traffic = run
    asked = []
    with lw.dashboard(query, controls=True, title="Traffic") as served:
        page = opened(browser, served.url, asked)
        expect = playwright.expect

        # Rows move, and the counts add up.
        traffic.go_on(3, late=False)
        expect(page.locator("#counts .sum td")).to_have_text(str(traffic.written))
        traffic.go_on(2, late=False)
        expect(page.locator("#counts .sum td")).to_have_text(str(traffic.written))
        expect(page.locator("#balance")).to_have_text("✓ the counts add up")
        assert page.locator("#rows tr").count() == 0

        # Refresh: an early row of each open window, found by the keyboard alone.
        page.locator("#refresh").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#message")).to_have_text("Early results were requested.")
        early = page.locator("#rows tr.early")
        expect(early.first).to_be_visible()
        windows = early.locator("td:first-child").all_inner_texts()
        assert "[2024-05-01 11:58:20, 2024-05-01 12:00:20)" in windows

        # The slider, by the keyboard: the decision is in the log.
        page.get_by_label("aggressiveness").focus()
        page.keyboard.press("End")
        expect(page.locator("#slider-aggressiveness-text")).to_have_text("100 %")
        expect(page.locator("#message")).to_contain_text(
            "aggressiveness 100 %: decided after epoch"
        )
        assert query.epochs.log.read(query.status().epoch).overrides["aggressiveness"].value == 1

        # Its final follows, and many others; late rows are listed, accuracy is known.
        for _ in range(40):
            traffic.go_on(10)
            page.wait_for_timeout(60)
        expect(page.locator("#newest")).to_contain_text("12:06:44")
        shown = (
            "[...model.groups.values()].flatMap(w => [...w.values()]).filter(p => p.final).length"
            " === model.status.results && model.status.results > 50"
        )
        wait_until(lambda: page.evaluate(shown))
        end = (START + timedelta(seconds=20)).timestamp()
        assert set(page.evaluate(f"model.groups.get('1').get({end})")) == {"early", "final"}
        expect(page.locator("#late-rows tr").first).to_contain_text("entered others")
        expect(page.locator("#prods-text")).to_contain_text("cars: mean")
        expect(page.locator("#chart-results canvas")).to_be_visible()
        label = page.locator("#chart-results").get_attribute("aria-label")
        assert "windows with early results" in label
        picture(page, "page")

        # Another page begins with the same windows; nobody else was asked for anything.
        again = opened(browser, served.url, asked)
        wait_until(lambda: len({p.locator("#epoch").inner_text() for p in (page, again)}) == 1)
        assert again.evaluate("model.groups.size") == 3
        assert all(
            url.startswith((f"http://127.0.0.1:{served.server.port}/", "data:")) for url in asked
        )

        # A wrong token is refused.
        stranger = browser.new_page()
        answer = stranger.goto(served.url[:-1])
        assert answer.status == 403
        assert "needs the token" in stranger.inner_text("body")


def test_shed_windows_are_gaps_quality_is_held_against_its_target_and_sliders_change_both(
    overloaded, browser
):
    query, traffic = overloaded
    expect = playwright.expect
    with lw.dashboard(query, controls=True, title="Busy traffic") as served:
        page = opened(browser, served.url, [], dark=True)
        for _ in range(16):
            traffic.go_on(20)
            page.wait_for_timeout(40)

        # What is shed is told apart from what never came, in the chart and in its table.
        wait_until(lambda: page.evaluate("model.dropped.length > 3"))
        expect(page.locator("#dropped-text")).to_contain_text("windows were dropped")
        page.locator("#table-results summary").press("Enter")
        expect(page.locator("#table-results")).to_contain_text("dropped")
        finals, dropped = page.evaluate(
            "[[...model.groups.get('1')].filter(([, p]) => p.final).map(([end]) => end),"
            " model.dropped.map(([end]) => end)]"
        )
        assert finals
        assert not set(finals) & set(dropped)

        # Quality, measured and estimated, with the slack that was chosen for it.
        expect(page.locator("#quality-text")).to_contain_text("target 99.0 %")
        wait_until(lambda: query.status()["in"] == traffic.written and query.newest.quiet)
        told = query.status().quality["window"]
        slack = told.slack["input 1"].total_seconds()
        assert slack > 0
        # The page hears of an epoch a moment after the status does.
        hears = (
            "wanted => { const at = model.moments[model.moments.length - 1].quality.window;"
            " return at.measured === wanted[0] && at.estimated === wanted[1]"
            " && at.slack === wanted[2]; }"
        )
        wait_until(lambda: page.evaluate(hears, [told.measured, told.estimated, slack]))
        expect(page.locator("#chart-slack")).to_have_attribute(
            "aria-label", re.compile("Slack in force")
        )

        # The sliders: what they change is decided by an epoch, and a second page shows it, too.
        for label, key, said in [
            ("target quality", "End", "target quality 100 %: decided"),
            ("max gap", "ArrowRight", "max gap 7 windows: decided"),
        ]:
            page.get_by_label(label).focus()
            page.keyboard.press(key)
            expect(page.locator("#message")).to_contain_text(said)
        # What cannot be is refused with a sentence, and the slider goes back.
        page.get_by_label("max gap").evaluate("e => { e.min = 0; e.value = 0; }")
        page.get_by_label("max gap").dispatch_event("change")
        expect(page.locator("#message")).to_contain_text("must be a number of results from 1")
        expect(page.get_by_label("max gap")).to_have_value("7")
        tuned = query.epochs.log.read(query.status().epoch).overrides
        assert {n: t.value for n, t in tuned.items()} == {"quality": 1, "max_gap": 7}
        assert query.status().quality["window"].target == 1
        again = opened(browser, served.url, [])
        expect(again.get_by_label("target quality")).to_have_value("1")
        for _ in range(10):
            traffic.go_on(20)
            page.wait_for_timeout(40)
        picture(page, "page-dark")

        # Every control has a name, and the newest result is told to who cannot see it.
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, input, select, [role=img], [role=region]')]"
            ".filter(e => !(e.labels?.length || e.textContent.trim() || e.ariaLabel ||"
            " e.getAttribute('aria-labelledby'))).map(e => e.id)"
        )
        assert unnamed == []
        expect(page.locator("#news")).to_contain_text("newest result: window [")


def picture(page, name):
    folder = os.environ.get("LOWWATER_PICTURES")
    if folder:
        page.wait_for_timeout(500)
        page.evaluate("document.activeElement.blur()")
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_restarts_the_last_failure_and_overflows_are_shown(browser, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(4):
        lines = "".join(f"{10 * i + t},{2**62}\n" for t in range(10))
        (folder / f"{i}.csv").write_text(f"t,x\n{lines}")
    failures, more = iter([True, False, True, False]), []

    def write(epoch, rows):
        if more or next(failures, False):
            raise ConnectionError("the server is away")

    source = lw.files(folder, format="csv", schema="t bigint, x bigint", files_per_epoch=1)
    query = lw.stream(source, time="t", watermark=lw.ordered()).window(range=5).agg(s=lw.sum("x"))
    run = query.start(
        host="local",
        sink=lw.to_callback(write),
        checkpoint=str(tmp_path / "c"),
        restart=lw.restart(pause="1 millisecond"),
    )
    try:
        with lw.dashboard(run, title="Restarted") as served:
            page = opened(browser, served.url, [])
            shown = page.locator("#failure")
            playwright.expect(shown).to_contain_text("Restarts: 2. Last failure: epoch ")
            playwright.expect(shown).to_contain_text("ConnectionError: the server is away")
            playwright.expect(page.locator("#overflow-text")).to_contain_text("sums or means are")
            playwright.expect(page.locator("#state")).to_have_text("running")
            more.append("of these failures")
            (folder / "4.csv").write_text("t,x\n90,1\n")
            playwright.expect(page.locator("#state")).to_have_text("failed")
            playwright.expect(shown).to_contain_text("The run was restarted 3 times")
    finally:
        run.stop()
