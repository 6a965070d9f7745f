"""`lowwater profile`: the disorder of a recording, and what completeness costs a query over it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from lowwater.cli.app import main

START = 1_714_564_800_000_000
"""The first of May 2024, noon, in microseconds."""
QUERY = "SELECT k, count(*) AS n, avg(x) AS mean FROM s [RANGE 10 seconds] WHERE x > 0 GROUP BY k"


def rows(count=200, seed=5):
    """A row a second; one in ten is exponentially late, and those have the larger values."""
    rng = np.random.default_rng(seed)
    sent = np.arange(count)
    late = rng.random(count) < 0.1
    came = sent + np.where(late, rng.exponential(20, count), 0.2)
    return sent, came, np.where(late, 5.0, 1.0 - 2.0 * (sent % 2))


def table():
    sent, came, x = rows()
    order = np.argsort(came, kind="stable")
    at = {"ts": START + sent * 1_000_000, "came": START + np.rint(came * 1e6).astype(np.int64)}
    columns = {n: pa.array(v[order], pa.timestamp("us", "UTC")) for n, v in at.items()}
    return pa.table({**columns, "k": (sent % 2)[order], "x": x[order]})


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(), "r.parquet")
    return tmp_path


def exit_code(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["profile", *arguments])
    return ended.value.code


def profiled(capfd, *arguments, file="r.parquet"):
    timed = [] if "--time" in arguments else ["--time", "ts", "--arrival", "came"]
    assert exit_code(file, *timed, *arguments, "--json") == 0
    return json.loads(capfd.readouterr().out)


def in_time(slack, length=1, matching=True):
    """The share of rows in time under a slack in seconds, by a loop over the rows."""
    sent, came, x = rows()
    order = np.argsort(came, kind="stable")
    sent, x, epoch = sent[order], x[order], (came[order] // length).astype(int)
    spans = sorted({*epoch, *(epoch + 1)})
    number = np.searchsorted(spans, epoch)
    kept = [
        all(
            sent[number <= m].max(initial=-1_000) - slack < (t // 10 + 1) * 10 for m in range(n - 1)
        )
        for t, v, n in zip(sent, x, number, strict=True)
        if v > 0 or not matching
    ]
    return sum(kept) / len(kept)


def test_prices_are_those_of_the_rows_that_match_the_filter(here, capfd):
    arguments = ["--query", QUERY, "--epoch", "1 second", "--no-early"]
    found = profiled(capfd, *arguments)["query"]
    assert len(found["prices"]) > 3
    for one in found["prices"]:
        assert one["delivered"] == pytest.approx(in_time(one["slack"]))
    assert in_time(0) < in_time(0, matching=False), "the rows that match are the late ones"


def test_each_target_is_delivered_by_its_slack(here, capfd):
    found = profiled(capfd, "--range", "10 seconds", "--epoch", "1 second", "--no-early")["query"]
    assert all(one["delivered"] >= one["completeness"] for one in found["prices"])
    waits = [one["mean_wait"] for one in found["prices"]]
    assert waits == sorted(waits)
    assert found["frontier"][-1][0] == 1.0


def test_early_values_are_more_right_the_later_they_are_asked_for(here, capfd):
    early = profiled(capfd, "--query", QUERY, "--epoch", "1 second")["query"]["early"]
    leads = [one["lead"] for one in early]
    assert leads == sorted(leads, reverse=True)
    assert leads[0] == 10
    answered = [one["answered"] for one in early]
    assert answered == sorted(answered)
    assert answered[-1] > 0.8 > answered[0]
    asked = [one["accuracy"]["n"] for one in early if one["answered"] > 0.5]
    assert asked[-1] > asked[0]
    assert all(0 <= a <= 1 for one in early for a in one["accuracy"].values())


def test_the_report_fits_eighty_columns_and_has_a_sentence(here, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["--time", "ts", "--arrival", "came", "--query", QUERY, "--epoch", "1 second"]
    assert exit_code("r.parquet", *arguments) == 0
    shown = capfd.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "in 2" in shown
    assert "epochs of 1 second of arrival" in shown
    assert "% costs " in shown
    assert "before the end" in shown
    assert "accuracy of n" in " ".join(shown.split())


def test_a_need_chooses_finals_or_early_results_by_what_is_in_by_fresh(here, capfd):
    arguments = ["--time", "ts", "--arrival", "came", "--range", "10 seconds", "--no-early"]
    needs = ["fresh 5 seconds, right 0.5, exact 1 minute", "fresh 5 seconds, right 1.0"]
    options = [word for text in needs for word in ("--need", text)]
    assert exit_code("r.parquet", *arguments, "--epoch", "1 second", *options, "--json") == 0
    finals, early = json.loads(capfd.readouterr().out)["needs"]
    assert needs[0] in finals
    assert "so finals come first, with a slack of" in finals
    assert "so early results come first; finals wait" in early


def test_a_plot_has_the_frontier_of_the_query(here, capfd):
    pytest.importorskip("matplotlib")
    sizes = []
    for query in ([], ["--range", "10 seconds", "--no-early"]):
        timed = ["--time", "ts", "--arrival", "came", "--plot", "p.png"]
        assert exit_code("r.parquet", *timed, *query) == 0
        head = (here / "p.png").read_bytes()[:24]
        sizes.append(int.from_bytes(head[20:24], "big"))
    assert sizes[1] > sizes[0], "the plot with a query has one more panel"


@pytest.mark.parametrize("form", ["csv", "jsonl", "folder"])
def test_formats_of_a_stranger_give_the_same_prices(here, capfd, form):
    found = profiled(capfd, "--range", "10 seconds", "--no-early")["query"]
    sent, came, x = rows()
    order = np.argsort(came, kind="stable")
    milli = {"ts": sent[order] * 1_000, "came": np.rint(came[order] * 1e3).astype(np.int64)}
    numbers = pa.table({**milli, "x": x[order]})
    if form == "folder":
        (here / "log").mkdir()
        for i in range(0, 200, 50):
            pq.write_table(numbers.slice(i, 50), f"log/{i:03d}.parquet")
    elif form == "csv":
        pacsv.write_csv(numbers, "log.csv")
    else:
        (here / "log.jsonl").write_text("\n".join(map(json.dumps, numbers.to_pylist())))
    times = ["--time", "ts:ms", "--arrival", "came:ms"]
    name = "log" if form == "folder" else f"log.{form}"
    same = profiled(capfd, *times, "--range", "10 seconds", "--no-early", file=name)["query"]
    for a, b in zip(same["prices"], found["prices"], strict=True):
        assert a["delivered"] == pytest.approx(b["delivered"])
        assert a["mean_wait"] == pytest.approx(b["mean_wait"], abs=0.01)


def test_numbers_without_a_unit_are_replayed_as_numbers(here, capfd):
    sent, came, _ = rows()
    order = np.argsort(came, kind="stable")
    pacsv.write_csv(pa.table({"step": sent[order]}), "n.csv")
    found = profiled(capfd, "--time", "step", "--range", "10", "--epoch", "2", "--no-early",
                     file="n.csv")  # fmt: skip
    assert found["query"]["epoch"] == 2
    assert found["query"]["prices"][-1]["delivered"] == 1.0


MISTAKES = [
    (["--slide", "1 second"], "--slide is for a query; give one with --query"),
    (["--query", QUERY, "--range", "1 minute"], "--query and --range both describe windows"),
    (["--query", "nope.cql"], "the query 'nope.cql' cannot be read"),
    (["--range", "1 minute", "--by", "kk"], "Hint: did you mean 'k'?"),
    (["--query", "SELECT a.k FROM a [RANGE 1 second], b [RANGE 1 second] WHERE a.k = b.k"],
     "the query reads 2 streams (a, b), but a profile has one FILE"),
    (["--query", "SELECT count(*) AS n FROM s [GAP 5 seconds]"], "lowwater try"),
    (["--query", "SELECT count(*) AS n FROM s [RANGE 1 minute] WHERE x > 99"], "check its filter"),
    (["--range", "1 minute", "--epoch", "often"], "--epoch='often' is not a duration"),
    (["--range", "1 minute", "--arrival", "cme"], "Did you mean 'came'?"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_a_mistake_is_one_paragraph(here, capfd, arguments, said):
    timed = ["--time", "ts"] + ([] if "--arrival" in arguments else ["--arrival", "came"])
    assert exit_code("r.parquet", *timed, *arguments) == 2
    shown = " ".join(capfd.readouterr().err.split())
    assert shown.startswith("lowwater: ")
    assert said in shown


def test_a_file_without_rows_has_nothing_to_replay(here, capfd):
    pq.write_table(table().slice(0, 0), "empty.parquet")
    assert exit_code("empty.parquet", "--time", "ts", "--range", "1 minute") == 2
    assert "no row has a valid time" in " ".join(capfd.readouterr().err.split())
