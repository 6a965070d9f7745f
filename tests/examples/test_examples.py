"""The examples run, and show what they are there to show."""

from __future__ import annotations

import json
import re

import pytest

from tests.docs.pages import run_script


@pytest.fixture(autouse=True)
def screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("LOWWATER_DATA", raising=False)


def printed(capsys, name, *words):
    run_script(f"examples/{name}.py", *words)
    return capsys.readouterr().out


def test_traffic_is_told_early_and_then_exactly(capsys):
    said = printed(capsys, "traffic")
    right = float(re.search(r"were ([\d.]+)% right", said).group(1))
    assert right > 90
    assert re.search(r"7,200 readings: \d+ came too late", said)


def test_traffic_can_be_written_as_files_of_a_stream(capsys, tmp_path):
    printed(capsys, "traffic", "--write", str(tmp_path))
    files = sorted(tmp_path.iterdir())
    rows = [json.loads(line) for f in files for line in f.read_text().splitlines()]
    assert len(rows) == 7_200
    times = [row["ts"] for row in rows]
    assert times != sorted(times)


def test_network_flows_meet_their_target_with_less_slack(capsys):
    said = printed(capsys, "network_flows")
    none, long, target = (float(x) for x in re.findall(r"([\d.]+)% of the lookups", said))
    assert none < target < long
    assert target >= 98.5
    assert int(re.search(r"slack of (\d+) seconds", said).group(1)) < 300


def test_the_market_join_gives_the_pairs_asked_for(capsys):
    said = printed(capsys, "market_join")
    share = float(re.search(r"quality=0.95 .*?([\d.]+)%", said).group(1))
    assert share >= 95


def test_silent_sensors_hold_nobody_up_once_they_are_idle(capsys):
    said = printed(capsys, "silent_sensors")
    for_ever, idle, alone = said.split("late rows:")[:3]
    assert for_ever.count("at the end of the stream") > 3
    assert idle.count("at the end of the stream") <= 1
    assert alone.count("at the end of the stream") <= 1
