"""The live page without a browser: who may see it, what it is told, how much it remembers."""

from __future__ import annotations

import http.client
import json
import re
import secrets
import socket
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.cli.app import main
from lowwater.control.retune import Override
from lowwater.planner.early import prodded
from lowwater.query.start import RESULTS
from lowwater.query.start import start as start_query
from lowwater.sinks.sink import Outputs
from lowwater.ui.columns import QueryColumns
from lowwater.ui.history import GROUPS, MOMENTS, ROWS, WINDOWS, History
from lowwater.ui.plan_svg import picture

START = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Paced:
    """Gives a source its blocks one by one, when it is told to."""

    def __init__(self, folder):
        self.folder, self.number = folder, 0

    def send(self, *seconds):
        """Let rows of these seconds arrive, and wait for nothing."""
        self.number += 1
        lines = [
            json.dumps({"ts": (START + timedelta(seconds=s)).isoformat(), "k": s % 2}) + "\n"
            for s in seconds
        ]
        path = self.folder / f"{self.number:04d}.jsonl"
        path.with_suffix(".tmp").write_text("".join(lines))
        path.with_suffix(".tmp").rename(path)


@pytest.fixture
def started(tmp_path):
    """Start a query over a folder that grows; every run is stopped at the end."""
    runs = []

    def start(early=None):
        (tmp_path / "rows").mkdir(exist_ok=True)
        source = lw.files(tmp_path / "rows", format="json", schema="ts timestamp, k bigint")
        stream = lw.stream(source, time="ts", watermark=lw.slack("5 seconds"))
        query = stream.window(range="10 seconds").group_by("k").agg(n=lw.count())
        run = start_query(
            prodded(query.assembly, early), {RESULTS: Outputs()}, checkpoint=None, host="local"
        )
        runs.append(run)
        return run, Paced(tmp_path / "rows")

    yield start
    for run in runs:
        run.stop()


def get(page, path, *, method="GET", host=None, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", page.server.port, timeout=10)
    at = f"127.0.0.1:{page.server.port}" if host is None else host
    sent = {"Host": at, **{name.replace("_", "-"): v for name, v in headers.items()}}
    connection.request(method, path, body=body, headers=sent)
    answer = connection.getresponse()
    return connection, answer


def answered(page, path, **options):
    connection, answer = get(page, path, **options)
    body = answer.read().decode()
    connection.close()
    return answer.status, body


class Events:
    """What a page hears."""

    def __init__(self, page):
        self.connection, self.answer = get(page, f"/events?token={page.token}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.answer.close()
        self.connection.close()

    def next(self):
        while True:
            line = self.answer.readline().decode()
            assert line, "the server has hung up"
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))

    def until(self, wanted):
        limit = time.monotonic() + 10
        while time.monotonic() < limit:
            event = self.next()
            if wanted(event):
                return event
        raise AssertionError


# -- who may --------------------------------------------------------------------------------------


def test_nothing_is_shown_without_the_token(started):
    run, _ = started(lw.early_on_demand())
    with lw.dashboard(run, controls=True) as page:
        assert urlsplit(page.url).hostname == "127.0.0.1"
        right = f"token={page.token}"
        assert answered(page, f"/?{right}")[0] == 200
        for path in ("/", "/?token=wrong", "/events?token=wrong", "/events"):
            assert answered(page, path)[0] == 403
        assert answered(page, f"/?{right}", host="evil.example")[0] == 403
        wrong = {"X_Lowwater_Token": page.token[:-1]}
        assert answered(page, "/prod", method="POST", **wrong)[0] == 403
        assert answered(page, f"/prod?{right}", method="POST")[0] == 403
        assert answered(page, f"/../dashboard.py?{right}")[0] == 404
        assert run.asked == []


def test_page_asks_nobody_else(started):
    run, _ = started()
    with lw.dashboard(run) as page:
        _, html = answered(page, f"/?token={page.token}")
        texts = [html, answered(page, "/static/page.js")[1], answered(page, "/static/page.css")[1]]
        assert not any("http://" in text or "https://" in text for text in texts)
        _, answer = get(page, f"/?token={page.token}")
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_page_is_for_reading_only_unless_asked(started):
    run, _ = started(lw.early_on_demand())
    with lw.dashboard(run) as page:
        status, said = answered(page, "/prod", method="POST", X_Lowwater_Token=page.token)
        assert (status, said) == (
            404,
            "The page is read-only: open it with controls=True, or --ui-control.\n",
        )


def test_busy_port_is_a_mistake(started, capfd, tmp_path, monkeypatch):
    run, _ = started()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("ts,x\n2024-01-01 00:00:00,1\n")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(lw.SpecError, match=f"port {port}: address already in use"):
            lw.dashboard(run, port=port)
        options = ["--source", "s=s.csv", "--watermark", "ordered", "--host", "local"]
        query = "SELECT count(*) AS n FROM s [RANGE 1 day]"
        with pytest.raises(SystemExit) as ended:
            main(["run", query, *options, "--sink", "csv:out", "--ui-port", str(port)])
    assert ended.value.code == 2
    assert f"port {port}: address already in use" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


# -- what it is told ------------------------------------------------------------------------------


def test_a_prod_of_the_page_gives_an_early_row_and_its_final_follows(started):
    #  rows     0  3 | 12 | 31         slack 5 s: the mark is 26 s after the last
    #  windows  [0, 10) is asked for early after the second epoch, and closed by the third
    run, rows = started(lw.early_on_demand())
    with lw.dashboard(run, controls=True) as page, Events(page) as events:
        assert events.next()["whole"]
        rows.send(0, 3)
        events.until(lambda e: e["status"] and e["status"]["counts"]["in"] == 2)
        status, said = answered(page, "/prod", method="POST", X_Lowwater_Token=page.token)
        assert (status, said) == (200, "Early results were requested.\n")
        early = events.until(lambda e: e["points"])["points"]
        assert {(p["group"], p["kind"]) for p in early} == {("0", "early"), ("1", "early")}
        assert early[0]["end"] == (START + timedelta(seconds=10)).timestamp()
        rows.send(31)
        finals = events.until(lambda e: e["points"])["points"]
        assert {(p["group"], p["kind"]) for p in finals} == {("0", "final"), ("1", "final")}
        assert [p["values"] for p in finals] == [{"n": 1.0}, {"n": 1.0}]
    with lw.dashboard(run) as another, Events(another) as events:
        assert events.next()["about"]["values"] == ["n"]


def test_a_page_hears_of_the_last_epoch_before_it_is_closed(started):
    run, rows = started()
    page = lw.dashboard(run)
    with Events(page) as events:
        assert events.next()["whole"]
        rows.send(0, 3)
        while run.status()["in"] < 2:
            time.sleep(0.001)
        page.close()
        assert events.until(lambda e: e["status"])["status"]["counts"]["in"] == 2


def test_a_slider_changes_what_the_log_says(started):
    run, rows = started(lw.early_before(0.25))
    with lw.dashboard(run, controls=True) as page, Events(page) as events:
        assert events.next()["settings"] == {"aggressiveness": 0.25}
        body = json.dumps({"aggressiveness": 0.75})
        token = {"X_Lowwater_Token": page.token}
        assert answered(page, "/retune", method="POST", body=body, **token)[0] == 200
        # The stream is silent: what was asked for is an epoch of its own.
        heard = events.until(lambda e: e["settings"] == {"aggressiveness": 0.75})
        tuned = run.epochs.log.read(heard["status"]["epoch"]).overrides
        assert tuned == {"aggressiveness": Override(0.75, 0.25, heard["status"]["epoch"])}
        rows.send(0, 3)
        events.until(lambda e: e["status"]["counts"]["in"] == 2)
        for wrong in ('{"aggressiveness": 2}', '{"aggressiveness": "x"}', "{}", "["):
            assert answered(page, "/retune", method="POST", body=wrong, **token)[0] == 400
        for other in ('{"quality": 0.9}', '{"max_gap": 3}', '{"speed": 1}'):
            status, said = answered(page, "/retune", method="POST", body=other, **token)
            assert (status, "started without" in said or "not a setting" in said) == (400, True)
        assert run.settings == {"aggressiveness": 0.75}


def test_late_rows_are_told_with_what_they_missed(started):
    run, rows = started()
    with lw.dashboard(run) as page, Events(page) as events:
        for second in (0, 40, 41, 2):
            rows.send(second)
            seen = events.until(
                lambda e, n=rows.number: e["status"] and e["status"]["counts"]["in"] == n
            )
        assert seen["late"][0]["late by"] == 39
        assert seen["late"][0]["missed"] == "[2024-05-01 12:00:00, 2024-05-01 12:00:10)"
        assert seen["status"]["counts"]["late"] == 1
        assert seen["status"]["balanced"]


# -- how much it remembers ------------------------------------------------------------------------


def described():
    feed = lw.feed("ts timestamp, k bigint, x double")
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    query = stream.where("x > 0").window(range="10 seconds").group_by("k").agg(n=lw.count())
    return QueryColumns(query.assembly.flow, early=False, controls=False, title="t")


def results(groups, windows):
    spans = [START + timedelta(seconds=10 * w) for w in windows]
    return pa.table(
        {
            "window": [
                {"start": s, "end": s + timedelta(seconds=10)} for s in spans for _ in groups
            ],
            "wid": [0 for _ in spans for _ in groups],
            "k": [g for _ in spans for g in groups],
            "n": [7 for _ in spans for _ in groups],
            "kind": ["final" for _ in spans for _ in groups],
        }
    )


def test_history_stays_small_however_long_a_run_is():
    history = History(described())
    status = lw.Status(0, {}, START, START, False, 1, 1, 1.0)
    for epoch in range(40):
        history.take_results(results(range(40), range(10 * epoch, 10 * epoch + 10)))
        history.update(status, float(epoch))
    for epoch in range(MOMENTS + 10):
        history.update(status, float(epoch))
    whole = history.snapshot()
    assert len(history.windows) == GROUPS
    assert all(len(mine) == WINDOWS for mine in history.windows.values())
    assert whole["otherGroups"] == 40 - GROUPS
    assert (len(whole["rows"]), len(whole["moments"])) == (ROWS, MOMENTS)
    newest = max(p["end"] for p in whole["points"])
    assert newest == (START + timedelta(seconds=4000)).timestamp()


def test_picture_names_every_part_of_the_plan_and_escapes_it():
    drawn = picture(described().flow)
    assert drawn.startswith("<svg")
    for text in ("where x &gt; 0", "tumbling: range 10 seconds", "by k", "results"):
        assert text in drawn


def test_only_a_run_has_a_page():
    with pytest.raises(lw.HostError, match="needs a running query"):
        lw.dashboard("run")


# -- metrics for Prometheus -----------------------------------------------------------------------

TEXT = r'"(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"(\w+)(?:\{{(\w+={TEXT}(?:,\w+={TEXT})*)\}})? (\S+)")


def parsed(text):
    """Read text of version 0.0.4 as strictly as it is written down; return samples by name."""
    found, kinds, open_name = {}, {}, None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            open_name = line.split(" ")[2]
            assert open_name not in kinds, "the samples of a name stand together"
        elif line.startswith("# TYPE "):
            _, _, name, kinds[open_name] = line.split(" ")
            assert (name, kinds[name] == "counter") == (open_name, name.endswith("_total"))
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert name == open_name
            key = tuple(re.findall(rf"(\w+)=({TEXT})", labels or ""))
            assert key not in found.setdefault(name, {})
            found[name][key] = float(value)
    return found


def test_prometheus_reads_metrics_that_add_up(started):
    run, rows = started(lw.early_on_demand())
    token = secrets.token_urlsafe(16)
    with lw.dashboard(run, token=token, title='say "so"\n') as page:
        for second in (0, 40, 41, 2):
            rows.send(second)
            wait_for(lambda n=rows.number: run.status()["in"] == n)
        assert answered(page, "/metrics")[0] == 403
        assert answered(page, "/metrics", Authorization="Bearer another-token-of-16")[0] == 403
        connection, answer = get(page, "/metrics", Authorization=f"Bearer {token}")
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = parsed(answer.read().decode())
        connection.close()
        assert parsed(answered(page, f"/metrics?token={token}")[1]).keys() == found.keys()
    gone = found["lowwater_rows_total"]
    assert gone[(("outcome", '"late"'),)] == 1
    waiting = found["lowwater_sidelined_rows"][()]
    assert sum(gone.values()) + waiting == found["lowwater_rows_in_total"][()] == 4
    assert found["lowwater_lag_seconds"] == {(): 41 - 30}  # the mark, 36 s, rounded to a window
    assert found["lowwater_open_windows"] == {(): 2}
    assert found["lowwater_info"] == {(("title", r'"say \"so\"\n"'),): 1}
    with pytest.raises(lw.SpecError, match="16 characters or more"):
        lw.dashboard(run, token=token[:15])


def wait_for(condition):
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)
