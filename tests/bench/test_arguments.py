"""The command `python -m bench`: its cases and its arguments. Nothing is measured here."""

from __future__ import annotations

import pytest

from bench import __main__ as command
from bench.cases import COMPARED, EVERY, TWINS


def arguments(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["python -m bench", *words])
    return command._arguments()


def test_help_names_every_case(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit) as ended:
        arguments(monkeypatch, "--help")
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*command.NAMES, *command.IN_ONE_PROCESS))


def test_cases_and_scale_are_read(monkeypatch):
    chosen = arguments(monkeypatch, "sliding-60", "--rows-scale", "0.1")
    assert (chosen.cases, chosen.rows_scale, chosen.repetitions) == (["sliding-60"], 0.1, 3)


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        (["sliding-61"], "no case sliding-61; there are sliding-60"),
        (["--repetitions", "0"], "--repetitions must be at least 1"),
        (["--rows-scale", "0"], "--rows-scale above 0"),
    ],
)
def test_impossible_arguments_are_usage_errors(monkeypatch, capsys, words, mistake):
    with pytest.raises(SystemExit) as ended:
        arguments(monkeypatch, *words)
    assert ended.value.code == 2
    assert mistake in " ".join(capsys.readouterr().err.split())


def test_every_case_is_known_to_the_workers_by_its_name():
    assert set(COMPARED) <= set(EVERY)
    assert all(EVERY[case.name] is case for pair in TWINS.values() for case in pair)
