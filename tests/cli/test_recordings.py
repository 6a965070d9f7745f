"""`lowwater run` on a recording: rows arrive in epochs, as they did when they were recorded."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.cli.app import main
from lowwater.engine.clock import RecordedClock

QUERY = "SELECT k, count(*) AS n FROM s [RANGE 10 seconds] GROUP BY k"
START = datetime(2024, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


COUNT = 240


def rows(count=COUNT, seed=7):
    """A row each second for four minutes, with exponential delays, and a silence of 100 s."""
    rng = np.random.default_rng(seed)
    sent = np.arange(count) + 100 * (np.arange(count) >= count // 2)
    delay = np.where(rng.random(count) < 0.1, rng.exponential(20, count), 0.5)
    return sent, np.round(sent + delay, 3), np.arange(count) % 3


def table(order="arrival"):
    sent, came, k = rows()
    at = np.argsort(came if order == "arrival" else sent, kind="stable")
    return pa.table(
        {
            "ts": [START + float(s) * SECOND for s in sent[at]],
            "came": [START + float(c) * SECOND for c in came[at]],
            "k": k[at],
        }
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(table("sent"), "r.parquet")
    return tmp_path


def exit_code(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def ran(*arguments, source="s=r.parquet,time=ts", watermark="slack 5 seconds"):
    options = ["--source", source, "--watermark", watermark, "--host", "local"]
    return exit_code("run", QUERY, *options, *arguments)


def results(folder):
    lines = [
        json.loads(line)
        for p in sorted(folder.glob("epoch-*"))
        for line in p.read_text().splitlines()
    ]
    return sorted((r["window"]["end"], r["k"], r["n"]) for r in lines)


def by_library(length, slack="5 seconds"):
    """The same query on a feed: the rows of each span of arrival are an epoch."""
    recorded, feed = table(), lw.feed("ts timestamp, came timestamp, k bigint")
    span = np.array([(t - START) // (length * SECOND) for t in recorded["came"].to_pylist()])
    # The span after rows is an epoch without rows; more of them change nothing.
    spans = sorted({*span, *(span + 1)})
    epochs = [recorded.filter(pa.array(span == n)) for n in spans]
    stream = lw.stream(feed, time="ts", watermark=lw.slack(slack))
    clock = RecordedClock(np.array([(s + 1) * length * 1_000_000 for s in spans]))
    done = lw.sql(QUERY, s=stream).run(epochs={feed: epochs}, clock=clock)
    found = [
        (f"{r['window']['end']:%Y-%m-%dT%H:%M:%SZ}", r["k"], r["n"])
        for r in done.results.to_pylist()
    ]
    return sorted(found), done.status["late"]


@pytest.mark.parametrize("length", [1, 4, 30])
def test_rows_arrive_in_epochs_of_the_arrival_clock(here, capfd, length):
    arguments = ["--arrival", "came", "--epoch", f"{length} seconds"]
    assert ran(*arguments, "--sink", "json:out", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    finals, late = by_library(length)
    assert results(here / "out") == finals
    assert found["counts"]["late"] == late
    assert found["played"].endswith("of arrival")


def test_shorter_epochs_show_lateness_that_long_ones_hide():
    assert by_library(1)[1] > by_library(30)[1] > 0


def test_the_source_may_name_the_column_itself(here, capfd):
    source = "s=r.parquet,time=ts,arrival=came"
    assert ran("--epoch", "4 seconds", "--sink", "json:out", source=source) == 0
    assert results(here / "out") == by_library(4)[0]
    assert "epochs of 4 seconds of arrival" in capfd.readouterr().err


def test_without_arrivals_the_file_plays_by_event_time_and_that_is_printed(here, capfd):
    pq.write_table(table(), "ordered.parquet")
    assert ran("--sink", "json:out", source="s=ordered.parquet,time=ts") == 0
    said = capfd.readouterr().err
    assert "epochs of 5 seconds of event time, as no arrival column was named" in said
    assert " late" in said


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 10**3), ("ns", 10**9)])
def test_numbers_with_a_unit_are_times(here, capfd, unit, per_second):
    sent, came, k = rows()
    start = int(START.timestamp()) * per_second
    numbers = {
        "ts": sent.astype(np.int64) * per_second + start,
        "came": start + (came * per_second if unit == "s" else np.rint(came * per_second)),
    }
    if unit != "s":
        numbers["came"] = numbers["came"].astype(np.int64)
    pacsv.write_csv(pa.table({**numbers, "k": k}), "numbers.csv")
    source = f"s=numbers.csv,time=ts:{unit},arrival=came:{unit}"
    assert ran("--epoch", "4 seconds", "--sink", "json:out", source=source) == 0
    assert results(here / "out") == by_library(4)[0]


def test_an_interrupted_recording_goes_on_in_the_same_epochs(here, capfd, monkeypatch):
    from lowwater.sinks.files import FileSink

    write, left = FileSink.write_epoch, iter(range(20))

    def away(sink, epoch, rows, tag):
        if next(left, None) is None:
            raise ConnectionError("the server is away")
        write(sink, epoch, rows, tag)

    options = ["--arrival", "came", "--epoch", "4 seconds", "--sink", "json:out"]
    monkeypatch.setattr(FileSink, "write_epoch", away)
    assert ran(*options, "--checkpoint", "ck") == 1
    monkeypatch.setattr(FileSink, "write_epoch", write)
    before = len(results(here / "out"))
    other = [*options[:3], "1 second", *options[4:]]
    assert ran(*other, "--checkpoint", "ck") == 2
    assert "was cut into other epochs" in capfd.readouterr().err
    assert ran(*options, "--checkpoint", "ck") == 0
    finals, late = by_library(4)
    assert 0 < before < len(finals)
    assert results(here / "out") == finals
    assert f"{late} late" in capfd.readouterr().err


def test_two_recordings_arrive_on_one_clock(here, capfd):
    """The second stream begins a minute later; its rows meet those of the first in each epoch."""
    late = table().filter(pa.array(np.arange(COUNT) >= COUNT // 2))
    pq.write_table(late, "b.parquet")
    query = "SELECT count(*) AS n FROM a [RANGE 20 seconds], b [RANGE 20 seconds] WHERE a.k = b.k"
    sources = ["--source", "a=r.parquet,time=ts", "--source", "b=b.parquet,time=ts"]
    options = ["--arrival", "came", "--epoch", "4 seconds", "--watermark", "slack 5 seconds"]
    query = "SELECT a.ts FROM a [RANGE 20 seconds], b [RANGE 20 seconds] WHERE a.k = b.k"
    arguments = [*sources, *options, "--host", "local", "--sink", "json:out", "--json"]
    assert exit_code("run", query, *arguments) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["balanced"]
    assert found["counts"]["in"] == COUNT * 3 // 2
    assert found["written"]["sink"] > COUNT // 2
    assert found["epochs"] < 200


def test_an_idle_timeout_closes_windows_during_a_recorded_silence(here, capfd):
    """Nothing arrives from 120 to 220 s; the window that ends at 120 s closes before that."""
    sent = [s for s in range(COUNT + 100) if not COUNT // 2 <= s < COUNT // 2 + 100]
    times = [START + s * SECOND for s in sent]
    came = [t + SECOND / 2 for t in times]
    pq.write_table(pa.table({"ts": times, "came": came, "k": [0] * COUNT}), "r.parquet")
    watermark = "slack 5 seconds, idle timeout 20 seconds"
    options = ["--arrival", "came", "--epoch", "1 second"]
    assert ran(*options, "--sink", "json:out", watermark=watermark) == 0
    closed = {}
    for path in (here / "out").glob("epoch-*"):
        for line in path.read_text().splitlines():
            closed[json.loads(line)["window"]["end"]] = int(path.name.split("-")[1])
    # An epoch each second, and six in the silence: 1, 2, 4, 8, 16, 32 and 64 s after it began.
    assert 120 < closed["2024-05-01T12:02:00Z"] <= 127


def test_early_results_are_asked_for_by_the_arrival_clock(here, capfd):
    """The run takes less than a second, but 240 s pass on the arrival clock."""
    options = ["--arrival", "came", "--epoch", "1 second", "--early", "every 10 seconds"]
    asked = []
    for folder in ("a", "b"):
        assert ran(*options, "--sink", f"json:{folder}", "--json") == 0
        asked.append(json.loads(capfd.readouterr().out)["prods"])
    assert asked[0] == asked[1], "a run of a recording does not depend on this machine's clock"
    assert asked[0]["asked"] > 20
    early = [p.read_text().count('"early"') for p in (here / "a").glob("epoch-*")]
    assert sum(early) == asked[0]["early"] > 20


MISTAKES = [
    (["--epoch", "soon"], {}, "--epoch='soon' is not a duration"),
    (["--epoch", "0 seconds"], {}, "--epoch '0 seconds' must be longer than zero"),
    (["--epoch", "1 second", "--epoch-rows", "5"], {}, "both set the length of epochs"),
    (["--arrival", "cme"], {}, "Did you mean 'came'?"),
    ([], {"source": "s=r.parquet,time=ts:ms"}, "only numbers have a unit; leave out :ms"),
    ([], {"source": "s=n.csv,time=t:min"}, "the unit 'min' is unknown; write s, ms, us, ns"),
    (["--epoch", "1 second"], {"source": "s=n.csv,time=t"}, "is a number without a unit"),
    ([], {"source": "s=n.csv,time=t,arrival=t"}, "cannot be seconds, they are too large"),
    (["--epoch", "1 second"], {"source": "s=parts,time=ts"}, "no source is a file"),
    ([], {"source": "s=parts,time=k:ms"}, "is a folder; leave out :ms and write windows in ms"),
    (
        ["--epoch", "1 second"],
        {"source": "s=r.parquet,time=ts,arrival=came,speed=9"},
        "no source is a file without speed=",
    ),
]


@pytest.mark.parametrize(("arguments", "options", "said"), MISTAKES, ids=[m[2] for m in MISTAKES])
def test_a_mistake_is_one_paragraph(here, capfd, arguments, options, said):
    (here / "parts").mkdir()
    pq.write_table(table(), "parts/a.parquet")
    pacsv.write_csv(pa.table({"t": [1_715_000_000_000_000], "k": [1]}), "n.csv")
    assert ran(*arguments, **options) == 2
    shown = capfd.readouterr().err
    assert shown.startswith("lowwater: ")
    assert said in shown
