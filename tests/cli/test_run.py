"""`lowwater run` and `explain` on the local host: input, output, refusals."""

from __future__ import annotations

import io
import json
import os
import signal
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import lowwater as lw
from lowwater.cli.app import main
from lowwater.cli.policy_text import early_of, watermark_of
from lowwater.cli.run.screen import Screen, metrics_table
from lowwater.cli.run.source_args import SourceArgs

QUERY = (
    "SELECT segment, max(speed) AS fastest, count(*) AS n FROM s [RANGE 1 minute] GROUP BY segment"
)
START = datetime(2024, 5, 1, 12, tzinfo=UTC)


def readings(rows=120):
    """A row a second, two segments; every tenth is 90 s behind the row before it."""
    late = [timedelta(seconds=90 if i % 10 == 9 else 0) for i in range(rows)]
    return pa.table(
        {
            "ts": [START + timedelta(seconds=i) - late[i] for i in range(rows)],
            "segment": [i % 2 for i in range(rows)],
            "speed": [40.5 + i % 7 for i in range(rows)],
        }
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the same readings in each format."""
    monkeypatch.chdir(tmp_path)
    table = readings()
    pq.write_table(table, "readings.parquet")
    pacsv.write_csv(table, "readings.csv")
    lines = [json.dumps({**r, "ts": r["ts"].isoformat()}) for r in table.to_pylist()]
    (tmp_path / "readings.jsonl").write_text("\n".join(lines))
    (tmp_path / "q.cql").write_text(QUERY)
    return tmp_path


@pytest.fixture
def piped(monkeypatch):
    """Standard input as a pipe, and the end that is written to."""
    read, write = os.pipe()
    with os.fdopen(read) as stdin, os.fdopen(write, "wb", buffering=0) as pipe:
        monkeypatch.setattr("sys.stdin", stdin)
        yield pipe


def exit_code(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments])
    return ended.value.code


def ran(*arguments, source="s=readings.parquet", watermark="slack 10 seconds"):
    options = ["--source", source, "--watermark", watermark, "--host", "local", *arguments]
    return exit_code("q.cql", *options)


def expected(epoch_rows=None, slack="10 seconds"):
    """The same query by the library, on the same epochs: 2 s of event time, or so many rows.

    Rows behind the row before them move the clock of event time no further: they come with it.
    """
    table, feed = readings(), lw.feed("ts timestamp, segment bigint, speed double")
    if epoch_rows is None:
        span = [(i - (i % 10 == 9)) // 2 for i in range(len(table))]
        epochs = [table.filter(pa.array([s == n for s in span])) for n in range(max(span) + 1)]
    else:
        epochs = [table.slice(i, epoch_rows) for i in range(0, len(table), epoch_rows)]
    stream = lw.stream(feed, time="ts", watermark=lw.slack(slack))
    done = lw.sql(QUERY, s=stream).run(epochs={feed: epochs})
    return done.results.to_pylist(), done.late.to_pylist()


def in_order(rows):
    return sorted(rows, key=lambda r: (str(r["window"]), r["segment"]))


def as_text(rows):
    return [
        {**r, "window": {k: f"{t:%Y-%m-%dT%H:%M:%SZ}" for k, t in r["window"].items()}}
        for r in rows
    ]


# -- what comes out -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["readings.parquet", "readings.csv", "readings.jsonl"])
def test_rows_of_each_format_give_what_the_library_gives(here, capfd, name):
    assert ran("--sink", "json:-", source=f"s={name},time=ts") == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert in_order(found) == in_order(as_text(expected()[0]))


def test_epochs_are_as_large_as_asked_and_late_rows_go_where_asked(here):
    assert ran("--epoch-rows", "7", "--sink", "parquet:out", "--late", "parquet:late") == 0
    results, late = expected(epoch_rows=7)
    assert late
    assert in_order(pq.read_table("out").to_pylist()) == in_order(results)
    found = pq.read_table("late").to_pylist()
    assert [r["ts"] for r in found] == [r["ts"] for r in late]


def test_rows_come_in_the_order_of_arrival(here, capfd):
    table = readings()
    came = pa.array([START + timedelta(seconds=i) for i in range(len(table))])
    pq.write_table(table.append_column("came", came).sort_by("ts"), "sorted.parquet")
    arguments = ("--epoch-rows", "7", "--sink", "json:-")
    assert ran(*arguments, source="s=sorted.parquet,time=ts,arrival=came") == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert in_order(found) == in_order(as_text(expected(epoch_rows=7)[0]))


def test_lines_of_standard_input_are_a_stream(here, capfd, piped):
    piped.write((here / "readings.jsonl").read_bytes())
    piped.close()
    assert ran("--sink", "json:-", source="s=-") == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert in_order(found) == in_order(as_text(expected(epoch_rows=1000)[0]))


def test_a_folder_is_read_in_the_order_of_names(here, capfd):
    (here / "parts").mkdir()
    table = readings()
    for i in range(0, len(table), 40):
        pacsv.write_csv(table.slice(i, 40), f"parts/{i:03d}.csv")
    assert ran("--sink", "csv:out", source="s=parts", watermark="ordered, max ahead 1 hour") == 0
    header, *rows = next((here / "out").glob("epoch-0000000001-*.csv")).read_text().splitlines()
    assert header == '"window_start","window_end","wid","segment","fastest","n","kind"'
    assert rows[0].startswith('"2024-05-01T11:58:00Z","2024-05-01T11:59:00Z",')


TOML = f"""
query = "{QUERY}"
watermark = "slack 10 seconds"
sink = "json:out"
host = "local"
epoch-rows = 7
[source.s]
path = "readings.csv"
time = "ts"
"""
YAML = f"""
query: {QUERY}
watermark: slack 10 seconds
sink: json:out
host: local
epoch_rows: 7
source:
  s: {{path: readings.csv, time: ts}}
"""


@pytest.mark.parametrize(("name", "text"), [("run.toml", TOML), ("run.yaml", YAML)])
def test_settings_come_from_a_file_and_the_command_line_has_the_last_word(here, capfd, name, text):
    # Paths of the file begin where it is, those of the command line where the user is.
    (here / "settings").mkdir()
    (here / "settings" / name).write_text(text.replace("readings.csv", "../readings.csv"))
    assert exit_code("--config", f"settings/{name}") == 0
    in_files = (here / "settings/out").glob("*.json*")
    found = [json.loads(line) for p in in_files for line in p.read_text().splitlines()]
    assert in_order(found) == in_order(as_text(expected(epoch_rows=7)[0]))
    options = ["--sink", "json:-", "--source", "s=readings.parquet", "--epoch-rows", "1000"]
    assert exit_code("q.cql", "--config", f"settings/{name}", *options) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert in_order(found) == in_order(as_text(expected(epoch_rows=1000)[0]))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "query = ", "'a.toml' is not valid TOML"),
        ("a.yaml", "query: [", "'a.yaml' is not valid YAML"),
        ("a.yaml", "- a", "'a.yaml' has no settings"),
        ("a.json", "{}", "name it .toml or .yaml"),
        (
            "a.toml",
            'watermrk = "ordered"',
            "'watermrk' is not a setting; did you mean 'watermark'?",
        ),
        ("a.toml", 'progress = "ordered"', "'progress' is now 'watermark'"),
        ("a.yaml", "prods: every 1 hour", "'prods' is now 'early'"),
        ("a.toml", 'left-out = "json:out"', "'left-out' is now 'dropped'"),
        ("a.yaml", "follow: 3", "follow = 3 must be true or false"),
        ("a.yaml", "epoch_rows: many", "epoch_rows = 'many' must be a whole number"),
        ("a.toml", "sink = 3", "sink = 3 must be text"),
        ("a.toml", "[source.s]\ntime = 'ts'", "source 's' has no path"),
        ("a.yaml", "source: 3", "source = 3 must map the name of each stream"),
        ("a.yaml", "watermark: ordered", "QUERY is missing"),
        ("a.yaml", "query: 2024-99-99", "'a.yaml' has a value that cannot be read: month must be"),
        ("a.toml", f"epoch_rows = {'9' * 5000}", "'a.toml' has a value that cannot be read"),
        ("a.yaml", "[" * 3000, "'a.yaml' has a value that cannot be read"),
    ],
)
def test_a_mistake_in_a_file_of_settings_names_the_file_and_the_key(here, capfd, name, text, said):
    (here / name).write_text(text)
    assert exit_code("--config", name) == 2
    shown = capfd.readouterr().err
    assert shown.startswith("lowwater: ")
    assert said in shown


def test_windows_may_be_shed_and_what_was_is_told(here, capfd):
    shed = ["--shed", "share 0.4, max gap 2", "--dropped", "json:gone", "--epoch-rows", "20"]
    query = "SELECT count(*) AS n FROM s [RANGE 5 seconds]"
    options = ["--source", "s=readings.csv", "--watermark", "slack 2 minutes", "--host", "local"]
    assert exit_code(query, *options, *shed, "--sink", "json:out", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["counts"]["shed"] > 0
    assert found["balanced"]
    assert found["written"]["dropped"] > 0
    gone, kept = (
        {
            json.loads(t)["wid"]
            for p in here.glob(f"{name}/epoch-*")
            for t in p.read_text().splitlines()
        }
        for name in ("gone", "out")
    )
    assert kept
    assert not kept & gone


def test_the_report_has_the_dropped_windows_by_class_of_groups(here, capfd):
    rows = [(START + timedelta(seconds=n), "tiny" if n % 6 == 0 else "acme") for n in range(900)]
    pacsv.write_csv(pa.table({"ts": [t for t, _ in rows], "k": [k for _, k in rows]}), "k.csv")
    query = "SELECT k, count(*) AS n FROM s [RANGE 5 seconds] GROUP BY k"
    given = [query, "--source", "s=k.csv", "--watermark", "ordered", "--host", "local"]
    shed = ["--shed", "share 0.4, max gap 3, fair by k", "--epoch-rows", "30"]
    files = ["--sink", "json:out", "--dropped", "json:gone"]
    assert exit_code(*given, *shed, *files) == 0
    shown = capfd.readouterr().err
    gone = [
        json.loads(line)["class"]
        for path in here.glob("gone/epoch-*")
        for line in path.read_text().splitlines()
    ]
    acme = lw.fair_class("acme")
    assert set(gone) == {acme}
    assert f"Dropped {len(gone)} windows by class of groups." in shown
    assert f"  class {acme}: {len(gone)} windows, at the end a share of 48%" in shown
    assert exit_code(*given, *shed, "--sink", "json:again", "--json") == 0
    record = json.loads(capfd.readouterr().out)["dropped"]
    assert record["windows_of"] == {str(acme): len(gone)}


def test_the_report_has_what_a_need_promised_and_kept(here, capfd):
    given = ["SELECT count(*) AS n FROM s [RANGE 5 seconds]", "--source", "s=readings.csv"]
    need = ["--need", "fresh 30 seconds, error 0.05, exact 3 minutes", "--host", "local"]
    assert exit_code(*given, *need, "--sink", "json:out") == 0
    shown = capfd.readouterr().err
    assert "\nDropped 0 windows, at the end a share of 0%." in shown
    assert "\nNeed: first answers within 30 seconds: " in shown
    assert "with an error of at most 0.05: " in shown
    assert exit_code(*given, *need, "--sink", "json:again", "--json") == 0
    (record,) = json.loads(capfd.readouterr().out)["needs"].values()
    assert record["promised"]["error"] == 0.05
    assert set(record["kept"]) == {"fresh", "share", "exact"}


def test_a_quality_target_stands_for_progress(here, capfd):
    options = ["--source", "s=readings.csv", "--host", "local", "--sink", "json:-"]
    assert exit_code("q.cql", *options, "--quality", "1.0, idle timeout 1 minute") == 0
    by_short = capfd.readouterr().out
    assert exit_code("q.cql", *options, "--watermark", "quality 1.0, idle timeout 1 minute") == 0
    assert capfd.readouterr().out == by_short


def test_machines_get_an_object_whose_counts_add_up(here, capfd):
    assert ran("--sink", "parquet:out", "--json", "--early", "every 1 hour") == 0
    said = capfd.readouterr()
    found = json.loads(said.out)
    assert said.err == ""
    assert found["counts"]["in"] == 120 == found["counts"]["admitted"] + found["counts"]["late"]
    assert (found["balanced"], found["ended"], found["interrupted"]) == (True, True, False)
    assert found["prods"]["asked"] == 0
    assert found["written"] == {"sink": pq.read_table("out").num_rows}


def test_a_pipe_gets_rows_only_and_one_sentence_goes_beside_it(here, capfd):
    assert ran() == 0
    said = capfd.readouterr()
    assert "epoch 36: " in said.out
    assert "│" in said.out
    assert said.err.startswith("120 rows (12 late), 4 results; 62 epochs of 2 seconds of event ")
    assert said.err.count("\n") == 1
    assert "\x1b" not in said.out + said.err


def test_an_empty_file_gives_nothing_and_ends(here, capfd):
    pq.write_table(readings().slice(0, 0), "empty.parquet")
    assert ran(source="s=empty.parquet") == 0
    assert capfd.readouterr().err.startswith("0 rows, 0 results")


def test_results_are_counted_where_they_leave(here, capfd):
    # Six windows of a minute by segment go into two of an hour, of which HAVING keeps one.
    inner = "(SELECT segment, count(*) AS n FROM s [RANGE 1 minute] GROUP BY segment)"
    query = f"SELECT segment, sum(n) AS n FROM {inner} [RANGE 1 hour] GROUP BY segment"
    options = ["--source", "s=readings.csv", "--watermark", "slack 2 minutes", "--host", "local"]
    assert exit_code(f"{query} HAVING segment = 1 AND n > 10", *options, "--sink", "csv:out") == 0
    found = pacsv.read_csv(next(here.glob("out/*.csv"))).to_pylist()
    assert capfd.readouterr().err.startswith(f"120 rows, {len(found)} results in out")


def test_explain_runs_nothing(here, capfd):
    with pytest.raises(SystemExit) as ended:
        main(["explain", QUERY, "--source", "s=readings.csv", "--watermark", "slack 1 minute"])
    assert ended.value.code == 0
    said = capfd.readouterr().out
    assert "tumbling: range 1 minute" in said
    assert "slack('1 minute')" in said


# -- Ctrl-C ---------------------------------------------------------------------------------------


def test_ctrl_c_stops_after_an_epoch_and_says_how_to_go_on(here, capfd, piped, monkeypatch):
    # Standard input stays open, so the run would go on for ever; its first result presses Ctrl-C.
    def press(self, epoch, rows, tag):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("lowwater.sinks.files.FileSink.write_epoch", press)
    piped.write((here / "readings.jsonl").read_bytes() + b"\n")
    assert ran("--sink", "parquet:out", source="s=-") == 130
    said = capfd.readouterr().err
    assert "Stopped after epoch" in said
    assert "--checkpoint" in said


def test_the_local_host_resumes_from_its_checkpoint(here, capfd):
    assert ran("--sink", "json:out", "--checkpoint", "ck") == 0
    before = {p.name: p.read_bytes() for p in (here / "out").iterdir()}
    assert before
    assert ran("--sink", "json:out", "--checkpoint", "ck") == 0
    assert "0 more results" in capfd.readouterr().err
    assert {p.name: p.read_bytes() for p in (here / "out").iterdir()} == before


def test_a_run_that_fails_starts_again_by_a_rule(here, capfd, monkeypatch):
    from lowwater.sinks.files import FileSink

    write, failures = FileSink.write_epoch, iter([True, False, True])

    def away(sink, epoch, rows, tag):
        if next(failures, False):
            raise ConnectionError("the server is away")
        write(sink, epoch, rows, tag)

    monkeypatch.setattr(FileSink, "write_epoch", away)
    (here / "run.toml").write_text('restart = "times 5, within 1 hour, pause 1 millisecond"')
    options = ["--config", "run.toml", "--sink", "json:out", "--checkpoint", "ck", "--json"]
    assert ran(*options, "--epoch-rows", "10") == 0
    assert json.loads(capfd.readouterr().out)["restarts"] == 2
    found = [
        json.loads(line)
        for p in (here / "out").glob("*.json*")
        for line in p.read_text().splitlines()
    ]
    assert in_order(found) == in_order(as_text(expected(epoch_rows=10)[0]))


# -- mistakes -------------------------------------------------------------------------------------

MISTAKES = [
    (["nope.cql"], {}, "the query 'nope.cql' cannot be read: no such file"),
    (["q.yaml"], {}, "give settings with --config q.yaml"),
    (["q.cql"], {"source": "s=nope.csv"}, "no file or folder 'nope.csv' exists"),
    (["q.cql"], {"source": "nope.csv"}, "should be NAME=PATH"),
    (["q.cql"], {"source": "s=readings.csv,tim=ts"}, "'tim' is not an option"),
    (["q.cql"], {"source": "s=readings.csv,time=tss"}, "Did you mean 'ts'?"),
    (["q.cql"], {"source": "s=readings.csv,arrival=came"}, "column 'came' is not in the stream"),
    (["q.cql"], {"source": "s=readings.csv,speed=fast,arrival=ts"}, "speed='fast' is not a number"),
    (["q.cql"], {"source": "s=q.cql"}, "the ending of 'q.cql' does not show its format"),
    (["q.cql"], {"source": "s=q.cql,format=parquet"}, "is not a Parquet file"),
    (["q.cql"], {"source": "s=q.cql,format=json"}, "no line of 'q.cql' is a JSON object"),
    (["q.cql"], {"watermark": "slck 10 seconds"}, "Did you mean 'slack'?"),
    (["q.cql"], {"watermark": "slack soon"}, "'soon' is not a duration"),
    (["q.cql"], {"watermark": "slack 1 second, lul 2"}, "'lul 2' is not an option; options are"),
    (["q.cql"], {"watermark": "slack 1 second, lull 2"}, "'lull' is now 'idle timeout'"),
    (["q.cql", "--restart", "times 3"], {}, "--restart needs a checkpoint to continue from"),
    (["q.cql", "--outputs", "keep"], {}, "--outputs is for a checkpoint that went back"),
    (["q.cql", "--existing", "append"], {}, "--existing is for stored results"),
    (["q.cql", "--restart", "soon"], {}, "'soon' is not an option; options are: times, within"),
    (["q.cql", "--progress", "ordered"], {}, "--progress is now --watermark"),
    (["q.cql", "--prods", "every 1 hour"], {}, "--prods is now --early"),
    (["q.cql", "--left-out=json:out"], {}, "--left-out is now --dropped"),
    (["q.cql", "--early", "aggressive 0.5"], {}, "'aggressive' is now 'before'"),
    (["q.cql", "--shed", "p 0.3"], {}, "'p' is now 'share'; write 'share 0.3'"),
    (["SELECT max(sped) AS m FROM s [RANGE 1 minute]"], {}, "Hint: did you mean 'speed'?"),
    (["SELECT 1 FROM t"], {}, "'t' is not a stream"),
    (["q.cql", "--sink", "xml:out"], {}, "should be parquet:FOLDER"),
    (["q.cql", "--sink", "parquet:q.cql/out"], {}, "cannot be written to (not a directory)"),
    (
        ["q.cql", "--sink", "csv:out", "--late", "csv:out", "--malformed", "csv:m"],
        {},
        "--sink and --late would mix",
    ),
    (["q.cql", "--sink", "json:-", "--json"], {}, "they would mix"),
    (["q.cql", "--early", "often"], {}, "--early 'often': the first word must be one of"),
    (["q.cql", "--host", "flink"], {}, "'flink' is unknown"),
    (
        ["q.cql", "--host", "spark", "--checkpoint", "q.cql/c"],
        {},
        "--checkpoint: 'q.cql/c' cannot be written to",
    ),
    (["q.cql", "--quality", "0.9"], {}, "--watermark and --quality both set"),
    (["q.cql", "--shed", "share 0.3, gap 3"], {}, "'gap 3' is not an option; options are"),
    (["q.cql", "--shed", "max gap 3"], {}, "needs exactly one of the two"),
    (["q.cql", "--sideline", "every 0"], {}, "must be a whole number, 1 or more"),
    (["q.cql", "--sink", "postgres:host=x"], {}, "should be postgres:ADDRESS,table=NAME"),
    (["q.cql", "--sink", "postgres:host=/nowhere,table=t"], {}, "postgres(table='t'): "),
    (["q.cql", "--config", "nope.toml"], {}, "'nope.toml' cannot be read: no such file"),
]


@pytest.mark.parametrize(("arguments", "options", "said"), MISTAKES, ids=[m[2] for m in MISTAKES])
def test_a_mistake_is_one_paragraph_and_leaves_nothing_behind(
    here, capfd, arguments, options, said
):
    before = sorted(p.name for p in here.iterdir())
    settings = {"source": "s=readings.csv", "watermark": "ordered", "host": "local", **options}
    if "--host" in arguments:
        del settings["host"]
    given = [text for name, value in settings.items() for text in (f"--{name}", value)]
    assert exit_code(*arguments, *given) == 2
    shown = capfd.readouterr()
    assert shown.err.startswith("lowwater: ")
    assert said in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""
    assert sorted(p.name for p in here.iterdir()) == before


def test_results_of_an_earlier_run_are_not_mixed_with_others(here, capfd):
    assert ran("--sink", "json:out") == 0
    before = {p.name: p.read_bytes() for p in (here / "out").iterdir()}
    assert ran("--sink", "json:out") == 2
    assert "holds results of an earlier run" in capfd.readouterr().err
    assert {p.name: p.read_bytes() for p in (here / "out").iterdir()} == before


# -- sentences and sources ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("slack 100 rows", lw.slack(rows=100)),
        ("slack 2.5", lw.slack(2.5)),
        (
            "slack 1 minute 30 seconds, consistent",
            lw.slack("1 minute 30 seconds", mode="consistent"),
        ),
        ("ordered", lw.ordered()),
        ("punctuated done, by sensor", lw.punctuated("done", by="sensor")),
        (
            "per source sensor, each (slack 5 seconds, idle timeout 1 minute)",
            lw.per_source("sensor", lw.slack("5 seconds", idle_timeout="1 minute")),
        ),
    ],
)
def test_watermark_policies_are_text(text, policy):
    assert watermark_of(text) == policy


def test_early_policies_are_text():
    assert early_of("on demand") == lw.early_on_demand()
    assert early_of("before 0.5, accuracy 0.9") == lw.early_before(0.5, accuracy=0.9)


def test_a_path_may_have_commas_and_equals_signs():
    found = SourceArgs.of("s=a,b=c.csv,schema=ts timestamp, p decimal(10, 2),time=ts")
    assert found.path == "a,b=c.csv"
    assert found.options == {"schema": "ts timestamp, p decimal(10, 2)", "time": "ts"}


# -- the screen -----------------------------------------------------------------------------------


def test_screen_shows_the_bar_the_mark_and_early_rows_with_their_interval():
    console = Console(width=100, height=20, record=True, file=io.StringIO(), force_terminal=True)
    screen = Screen(console, 200, live_rows=True)
    kinds = pa.struct([("n", pa.float64())])
    window = {"start": START, "end": START + timedelta(minutes=1)}
    screen.take(
        3,
        pa.table(
            {
                "window": [window],
                "wid": [7],
                "n": [61],
                "kind": ["early"],
                "completeness": [0.5],
                "low": pa.array([{"n": 55.0}], kinds),
                "high": pa.array([{"n": 70.0}], kinds),
            }
        ),
    )
    screen.status = lw.Status(3, {"in": 120, "late": 4}, START, START, False, 1, 1, 1.0, 99.0)
    console.print(screen.picture())
    console.print(metrics_table(screen.status, 5))
    text = console.export_text()
    assert "120 of 200 rows" in text
    assert "2024-05-01 12:00:00 – 12:01:00" in text
    assert "61 (55 – 70)" in text
    assert "50%" in text
    assert "wid" not in text


# -- lines and files that cannot be read -----------------------------------------------------------


def test_lines_and_files_that_cannot_be_read_are_counted_and_written(here, capfd):
    (here / "in").mkdir()
    lines = (here / "readings.csv").read_text().splitlines()
    (here / "in" / "a.csv").write_text("\n".join([*lines, "1,2,3,4", "x,1,y"]))
    (here / "in" / "b.csv.gz").write_bytes(b"not gzip")
    schema = "schema=ts timestamp, segment bigint, speed double"
    places = ["--sink", "csv:out", "--malformed", "json:bad", "--bad-files", "csv:files"]
    assert ran(*places, source=f"s=in,time=ts,format=csv,{schema}") == 0
    assert "122 rows" in (told := capfd.readouterr().err)
    assert "2 malformed, 1 bad file)" in told
    rows = [
        json.loads(r) for f in (here / "bad").glob("epoch-*") for r in f.read_text().splitlines()
    ]
    assert [r["text"] for r in rows] == ["1,2,3,4", "x,1,y"]
    (listed,) = (here / "files").glob("epoch-*")
    assert listed.read_text().splitlines()[1].startswith(f'"{here}/in/b.csv.gz"')


def test_quoted_line_ends_are_read_on_request(here, capfd):
    (here / "r.csv").write_text('ts,segment,speed,note\n2024-05-01T12:00:00Z,1,5.5,"a\nb"\n')
    assert ran("--json", "--sink", "csv:a", source="s=r.csv,multiline=true") == 0
    assert json.loads(capfd.readouterr().out)["counts"]["in"] == 1
    assert ran("--json", "--sink", "csv:b", source="s=r.csv") == 0
    assert json.loads(capfd.readouterr().out)["counts"]["malformed"] == 2
    assert ran(source="s=r.csv,multiline=yes") == 2
    assert "write multiline=true" in capfd.readouterr().err


def test_standard_input_counts_each_line(here, piped, capfd):
    piped.write(b'{"ts": "2024-05-01T12:00:00Z", "segment": 1, "speed": 5}\n{"ts"\nnull\n\xff\n\n')
    piped.close()
    schema = "schema=ts timestamp, segment bigint, speed double"
    assert (
        ran("--malformed", "json:bad", "--json", "--sink", "csv:out", source=f"s=-,{schema}") == 0
    )
    counts = json.loads(capfd.readouterr().out)["counts"]
    assert (counts["in"], counts["malformed"]) == (4, 3)


def test_a_date_that_only_duckdb_reads_stays_text(here, capfd):
    (here / "r.csv").write_text("ts,segment,speed,day\n2024-05-01T12:00:00Z,1,5.5,31/12/2024\n")
    assert ran("--json", "--sink", "csv:a", source="s=r.csv") == 0
    assert json.loads(capfd.readouterr().out)["counts"]["malformed"] == 0
