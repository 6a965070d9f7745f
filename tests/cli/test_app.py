"""The command `lowwater`: its help, its version and its errors."""

from __future__ import annotations

import pytest

import lowwater as lw
from lowwater.cli.app import app, main

COMMANDS = {"run", "explain", "profile", "try", "state"}


def test_version_is_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"lowwater {lw.__version__}\n"


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)


def test_unknown_command_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["rnu"])
    assert ended.value.code == 2
    assert "rnu" in capsys.readouterr().err


def test_the_command_has_only_what_works_from_a_wheel():
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert names == COMMANDS
    assert not app.registered_groups


def explain(path):
    query = "SELECT count(*) AS n FROM f [RANGE 10 seconds]"
    return ["explain", query, "--source", f"f={path},time=t", "--watermark", "ordered"]


def test_error_is_one_paragraph_without_trace(capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(explain(tmp_path / "absent.csv"))
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("lowwater: ")
    assert "absent.csv" in shown
    assert "Traceback" not in shown


def test_debug_shows_the_trace(tmp_path):
    with pytest.raises(lw.SpecError, match=r"absent\.csv"):
        main(["--debug", *explain(tmp_path / "absent.csv")])


def test_every_command_says_what_it_does():
    assert all(command.callback.__doc__ for command in app.registered_commands)
