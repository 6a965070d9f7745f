"""A run that fails: one line on the terminal, the trace in a log file, no password anywhere."""

from __future__ import annotations

import json
import re
import signal
import tempfile
import threading

import pytest

import lowwater as lw
from lowwater.cli.app import main
from lowwater.cli.failure import LONGEST_LINE, failure_line, run_log
from lowwater.errors import located

QUERY = "SELECT k, count(*) AS n FROM s [RANGE 10 seconds] GROUP BY k"
SECRET = "s3cr3t"  # noqa: S105
ADDRESS = f"postgresql://me:{SECRET}@127.0.0.1:1/db"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with rows; log files go into its folder `logs`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "logs"))
    rows = "".join(f"2024-01-01 00:00:{i:02d},{i % 2}\n" for i in range(60))
    (tmp_path / "s.csv").write_text(f"ts,k\n{rows}")
    return tmp_path


def ran(*arguments, query=QUERY):
    options = ["--source", "s=s.csv", "--watermark", "ordered", "--host", "local"]
    with pytest.raises(SystemExit) as ended:
        main(["run", query, *options, *arguments])
    return ended.value.code


def logs(folder):
    return list((folder / "logs").glob("*.log"))


def one_line(text):
    assert text.count("\n") == 1
    assert text.startswith("lowwater: ")
    assert "Traceback" not in text
    assert 'File "' not in text
    return text


def failing(message="the disk is full", kind=OSError):
    def write(*_, **__):
        raise kind(message)

    return write


# -- one line -------------------------------------------------------------------------------------


def test_a_sink_that_fails_is_one_line_with_sink_and_epoch(here, capfd, monkeypatch):
    monkeypatch.setattr("lowwater.sinks.files.FileSink.write_epoch", failing())
    assert ran("--sink", "json:out") == 1
    line = one_line(capfd.readouterr().err)
    assert "epoch 11 failed in the sink of results: OSError: the disk is full. Start the " in line
    (log,) = logs(here)
    assert str(log) in line
    assert "Traceback" in log.read_text()
    assert "OSError: the disk is full" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_an_operator_that_fails_is_one_line_with_operator_and_epoch(here, capfd, monkeypatch):
    monkeypatch.setattr("lowwater.operators.window.kernel.WindowKernel.run", failing())
    assert ran("--sink", "json:out") == 1
    line = one_line(capfd.readouterr().err)
    assert "epoch 0 failed in operator 'window': OSError: the disk is full. Start the " in line


def test_an_input_that_fails_is_named(here, capfd, monkeypatch):
    monkeypatch.setattr("lowwater.sources.replay.Replay.read", failing("gone\nand more lines"))
    assert ran("--sink", "json:out") == 1
    assert "epoch 0 failed in input 1: OSError: gone and more lines" in one_line(
        capfd.readouterr().err
    )


def test_an_error_of_lowwater_names_its_place_too(here, capfd, monkeypatch):
    monkeypatch.setattr(
        "lowwater.sinks.files.FileSink.write_epoch", failing("no room", lw.LowwaterError)
    )
    assert ran("--sink", "json:out") == 1
    assert one_line(capfd.readouterr().err).startswith(
        "lowwater: epoch 11 failed in the sink of results: no room. "
    )


@pytest.mark.parametrize("place", ["lowwater.sinks.files.FileSink.prepare", "lowwater.sql"])
def test_an_unexpected_error_before_the_run_is_one_line(here, capfd, monkeypatch, place):
    monkeypatch.setattr(place, failing(kind=ZeroDivisionError))
    assert ran("--sink", "json:out") == 1
    line = one_line(capfd.readouterr().err)
    assert "ZeroDivisionError: the disk is full. The full trace is in" in line
    (log,) = logs(here)
    assert "Traceback" in log.read_text()


@pytest.mark.parametrize("command", [["state", "ck"], ["profile", "s.parquet"]])
def test_other_commands_print_one_line_too(here, capfd, command):
    (here / "ck").mkdir()
    (here / "ck" / "lowwater.json").write_text("{")
    (here / "s.parquet").write_bytes(b"PAR1 but not really PAR1")
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code in (1, 2)
    one_line(capfd.readouterr().err)


def test_debug_prints_the_trace(here, monkeypatch):
    monkeypatch.setattr("lowwater.sql", failing(kind=ZeroDivisionError))
    options = ["--source", "s=s.csv", "--watermark", "ordered", "--host", "local"]
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "run", QUERY, *options])


def test_a_run_that_succeeds_or_is_a_mistake_leaves_no_log(here, capfd):
    assert ran("--sink", "json:out") == 0
    assert ran("--sink", "json:out") == 2
    assert ran("--sink", "json:out2", query="SELECT nope FROM s") == 2
    assert logs(here) == []


def test_exceptions_of_threads_go_to_the_log(here, capfd):
    hook = threading.excepthook
    with pytest.raises(lw.HostError, match="the end"), run_log(spark=False):  # noqa: PT012
        thread = threading.Thread(target=failing("in a thread"))
        thread.start()
        thread.join()
        raise RuntimeError("the end")
    assert threading.excepthook is hook
    assert capfd.readouterr().err == ""
    (log,) = logs(here)
    assert "OSError: in a thread" in log.read_text()
    assert "RuntimeError: the end" in log.read_text()


def test_a_long_error_is_cut_and_the_log_has_it_all(here):
    with pytest.raises(lw.HostError) as raised, run_log(spark=False):
        raise RuntimeError("x" * 50_000)
    assert len(str(raised.value)) < LONGEST_LINE + 200
    assert "x" * 50_000 in logs(here)[0].read_text()


def test_a_line_names_places_from_the_text_of_a_trace():
    # As Spark passes on an exception of a worker: its trace is the message of another exception.
    try:
        with located("epoch 3"), located("operator 'window'"):
            raise ValueError("bad value")  # noqa: TRY301
    except ValueError as problem:
        text = "\n".join(["Traceback …", "ValueError: bad value", *problem.__notes__, "\tat java"])
    failed = lw.HostError("the query failed: ValueError: bad value")
    failed.__cause__ = RuntimeError(text)
    assert failure_line(failed) == (
        "the query failed: ValueError: bad value, in operator 'window', in epoch 3"
    )


# -- no password ----------------------------------------------------------------------------------

WRONG = [
    ["--sink", f"postgres:{ADDRESS},table=t"],
    [f"--sink=postgres:{ADDRESS},table=t"],
    ["--late", f"postgres:host=127.0.0.1 port=1 password={SECRET},table=t"],
    ["--sink", f"postgres:{ADDRESS}"],
    ["--sink", ADDRESS],
    ["--sink", f"Postgres:{ADDRESS},table=t"],
    ["--sink", f"pg:host=h password={SECRET},table=t"],
    ["--sink", f"postgres:postgresql://me:{SECRET}%zz@h/db,table=t"],
    ["--sink", f"postgres:postgresql://me:x@{SECRET}@h/db,table=t"],
    ["--sink", f"postgres:host=h password=x {SECRET},table=t"],
    [f"postgres:{ADDRESS},table=t"],
    [f"host=h password={SECRET}"],
    ["--epoch-rows", f"postgres:{ADDRESS},table=t"],
    ["--snk", f"postgres:{ADDRESS},table=t"],
    ["--sink", f"postgres:{ADDRESS},table=t", "--late", f"postgres:{ADDRESS},table=t"],
]


@pytest.mark.parametrize("arguments", WRONG)
def test_no_mistake_prints_a_password(here, capfd, arguments):
    assert ran(*arguments) == 2
    shown = capfd.readouterr()
    assert shown.err
    assert SECRET not in shown.out + shown.err
    assert not any(SECRET in log.read_text() for log in logs(here))


CONFIGS = {
    "broken.yaml": f"sink: postgres:{ADDRESS},table=t: x\n",
    "open.yaml": f'sink: "postgres:{ADDRESS},table=t\n',
    "table.yaml": f"sink: {{postgres: '{ADDRESS}', table: t}}\n",
    "word.yaml": f"sink: {{postgres: {{user: me, password: {SECRET}}}}}\n",
    "list.yaml": f"late: ['postgres:{ADDRESS}']\n",
    "broken.toml": f'sink = "postgres:{ADDRESS},table=t\n',
    "bare.toml": f"sink = postgres:{ADDRESS},table=t\n",
    "table.toml": f'[sink]\npostgres = "{ADDRESS}"\n',
    "good.toml": f'sink = "postgres:{ADDRESS},table=t"\n',
}


@pytest.mark.parametrize("name", CONFIGS)
def test_no_mistake_in_a_settings_file_prints_a_password(here, capfd, name):
    (here / name).write_text(CONFIGS[name])
    assert ran("--config", name) == 2
    shown = capfd.readouterr().err
    assert shown.startswith("lowwater: ")
    assert SECRET not in shown


def without_server(monkeypatch, *more):
    """Let the sink start, and call its methods in `more`, without a server."""
    for name in ("prepare", "take_over", "ahead", *more):
        monkeypatch.setattr(f"lowwater.sinks.postgres.Postgres.{name}", lambda *_: None)


def test_the_command_that_resumes_is_printed_without_the_password(here, capfd, monkeypatch):
    def press(*_):
        signal.raise_signal(signal.SIGINT)

    without_server(monkeypatch)
    monkeypatch.setattr("lowwater.sinks.postgres.Postgres.write_epoch", press)
    words = ["--sink", f"postgres:{ADDRESS},table=t", "--checkpoint", "ck", "--epoch-rows", "5"]
    monkeypatch.setattr("sys.argv", ["lowwater", "run", QUERY, *words])
    source = here / "rows"
    source.mkdir()
    (here / "s.csv").rename(source / "1.csv")
    options = ["--source", "s=rows", "--watermark", "ordered", "--host", "local", "--follow"]
    with pytest.raises(SystemExit) as ended:
        main(["run", QUERY, *options, *words])
    assert ended.value.code == 130
    shown = capfd.readouterr().err
    assert "To resume, run the same command: lowwater run" in shown
    assert "postgres:…,table=t" in shown
    assert SECRET not in shown
    files = [p for p in (here / "ck").rglob("*") if p.is_file()]
    assert files
    assert not any(SECRET.encode() in p.read_bytes() for p in files)


def test_a_failing_database_is_one_line_without_the_password(here, capfd, monkeypatch):
    without_server(monkeypatch)
    assert ran("--sink", f"postgres:{ADDRESS},table=t") == 1
    line = one_line(capfd.readouterr().err)
    assert "to_postgres(table='t'): " in line
    assert "epoch 11 failed in the sink of results: " in line
    (log,) = logs(here)
    assert SECRET not in line + log.read_text()


def test_the_summary_for_machines_has_no_password(here, capfd, monkeypatch):
    without_server(monkeypatch, "write_epoch")
    assert ran("--sink", f"postgres:{ADDRESS},table=t", "--json") == 0
    shown = capfd.readouterr()
    assert json.loads(shown.out)["sinks"] == {"sink": "postgres:t"}
    assert not re.search(SECRET, shown.out + shown.err)


def test_settings_show_no_password():
    from lowwater.cli.run.settings import settings_of
    from lowwater.cli.run.sinks import Target

    assert SECRET not in repr(settings_of({"sink": f"postgres:{ADDRESS},table=t"}))
    assert SECRET not in repr(Target.of(f"postgres:{ADDRESS},table=t", "--sink"))
