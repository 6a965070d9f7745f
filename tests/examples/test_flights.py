"""The parts of the flights demo that need no Spark."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime

import pandas as pd
import pytest
from rich.console import Console

import lowwater as lw
from examples.flights import flights as source
from examples.flights.__main__ import main
from examples.flights.check import check, exact_answer
from examples.flights.flights import SCHEMA, Recording, timed
from examples.flights.journal import Journal, waits
from examples.flights.query import delays
from examples.flights.screen import Lines, LiveTable, bar
from examples.flights.summary import Report, as_text
from examples.flights.tradeoff import choices


def at(clock: str) -> pd.Timestamp:
    return pd.Timestamp(f"2013-06-24 {clock}", tz="UTC")


def recording(*rows: tuple[str, str, int]) -> Recording:
    """Flights of (scheduled, origin, delay), in the order they took off."""
    flights = pd.DataFrame(
        [
            {
                "scheduled": at(clock),
                "took_off": at(clock) + pd.Timedelta(minutes=delay),
                "origin": origin,
                "dest": "SFO",
                "carrier": "UA",
                "flight": number,
                "dep_delay": delay,
            }
            for number, (clock, origin, delay) in enumerate(rows)
        ]
    )
    ordered = flights.sort_values("took_off", kind="stable", ignore_index=True)
    return Recording(ordered, 3, date(2013, 6, 24), 1)


#  took off    08:00     12:10     12:20     12:30     13:00
#  scheduled   08:00     12:00     12:10     09:00     13:00
#  watermark                       11:00                        with a slack of 1 hour: the windows
#                                  ^ set by the row before      [06:10, 09:10) … [08:00, 11:00) miss
#                                                               the flight of 09:00
STORM = recording(
    ("08:00", "JFK", 0),
    ("09:00", "JFK", 210),
    ("12:00", "JFK", 10),
    ("12:10", "JFK", 10),
    ("13:00", "JFK", 0),
)


def run(flown: Recording, *, slack: str) -> Report:
    """Replay a recording on the local host, one flight per epoch."""
    feed, journal = lw.feed(SCHEMA), Journal()
    query = delays(feed, slack=slack)
    table = flown.table()
    epochs = [table.slice(n, 1) for n in range(len(table))]
    done = query.run(epochs={feed: epochs}, sink=lw.to_callback(journal.take))
    for n in range(len(table)):
        counts = {**done.status.counts, "in": n + 1}
        journal.note(lw.Status(n, counts, at("12:00"), at("13:00"), False, 1, 1, 1.0))
    journal.note(done.status)
    checked = check(journal.table(query.schema), done.late, flown.flights)
    return Report(flown, journal, done.late, checked, 60.0, slack)


def summary_text(report: Report) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(as_text(report.facts()))
    return " ".join(console.export_text().split())


# -- the command ---------------------------------------------------------------------------------


def test_error_is_one_paragraph_without_trace(capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["--from", "1999-01-01", "--folder", str(tmp_path)])
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("flights: no flight took off")
    assert "the data set is the year 2013" in shown
    assert "Traceback" not in shown


def test_impossible_slack_is_refused_before_spark_starts(capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["--slack", "soon", "--folder", str(tmp_path)])
    assert ended.value.code == 2
    assert "'soon'" in capsys.readouterr().err
    assert not (tmp_path / "spark.log").exists()


def test_missing_packages_are_named_in_one_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(source, "find_spec", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        main(["--folder", str(tmp_path)])
    assert ended.value.code == 1
    assert "pip install 'lowwater[demo]'" in capsys.readouterr().err


def test_help_names_the_options(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("--from", "--days", "--seconds", "--slack"))


# -- the flights ---------------------------------------------------------------------------------


def test_flight_that_never_took_off_has_no_arrival():
    flights = pd.DataFrame(
        {
            "year": [2013, 2013],
            "month": [6, 6],
            "day": [24, 24],
            "dep_time": [30.0, None],
            "sched_dep_time": [2355, 600],
            "dep_delay": [35.0, None],
        }
    )
    found = timed(flights)
    assert found["scheduled"].tolist() == [at("23:55"), at("06:00")]
    assert found["took_off"][0] == pd.Timestamp("2013-06-25 00:30", tz="UTC")
    assert found["took_off"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("first", "days", "spoken"),
    [
        (date(2013, 6, 24), 1, "24 June 2013"),
        (date(2013, 6, 24), 2, "24–25 June 2013"),
        (date(2013, 6, 30), 2, "30 June – 1 July 2013"),
    ],
)
def test_days_are_spoken(first, days, spoken):
    assert Recording(STORM.flights, 0, first, days).spoken_dates == spoken


# -- the check -----------------------------------------------------------------------------------


def test_exact_answer_puts_a_flight_into_all_windows_that_hold_it():
    answer = exact_answer(recording(("08:05", "JFK", 10), ("08:15", "JFK", 30)).flights)
    starts = answer.index.get_level_values("start")
    assert starts.min() == at("05:10")  # [05:10, 08:10) holds 08:05
    assert starts.max() == at("08:10")
    assert answer.loc[(at("05:10"), "JFK")].tolist() == [1, 10.0, 10]
    assert answer.loc[(at("08:00"), "JFK")].tolist() == [2, 20.0, 30]


def test_slack_that_covers_all_flights_makes_every_final_right():
    report = run(STORM, slack="4 hours")
    assert report.journal.count("late") == report.journal.count("partly_late") == 0
    assert report.check.right == report.check.windows == report.check.restored


def test_late_flights_explain_every_final_that_is_off():
    report = run(STORM, slack="1 hour")
    late = report.late.to_pylist()
    assert [(row["flight"], row["admitted"]) for row in late] == [(1, True)]
    assert (late[0]["missed"]["start"], late[0]["missed"]["end"]) == (at("06:10"), at("11:00"))
    assert report.check.windows - report.check.right == 12
    assert report.check.restored == report.check.windows


def test_window_whose_flights_were_all_late_is_reported_as_missing():
    report = run(STORM, slack="0 minutes")
    lines = report.check.lines
    alone = lines[(lines["flights_exact"] == 1) & (lines["worst_exact"] == 210)]
    assert report.check.never_came == len(alone[alone["flights"].isna()]) > 0
    assert report.check.restored == report.check.windows


def test_wrong_final_that_no_late_row_explains_is_found():
    right = run(STORM, slack="4 hours")
    results = right.journal.table(delays(lw.feed(SCHEMA), slack="1 hour").schema)
    found = check(results.slice(1), right.late, STORM.flights)
    assert found.windows - found.restored == 1


def test_wait_is_from_the_windows_end_to_the_last_row_read():
    # [05:10, 08:10) is complete with the row of 12:10, and closes in the epoch that reads 12:20.
    journal = run(STORM, slack="1 hour").journal
    found = waits(journal.results, journal.cuts(), STORM.flights["took_off"])
    first = next(iter(journal.results.values())).to_pylist()[0]
    assert first["window"]["end"] == at("08:10")
    assert found[0] == at("12:20") - at("08:10")


def test_results_that_the_end_of_the_stream_brought_out_did_not_wait():
    journal = run(STORM, slack="9 hours").journal
    assert waits(journal.results, journal.cuts(), STORM.flights["took_off"]).empty


# -- what is shown -------------------------------------------------------------------------------


def test_summary_names_late_rows_and_their_price():
    text = summary_text(run(STORM, slack="1 hour"))
    assert "5 flights scheduled 24 June 2013 took off" in text
    assert "3 more were cancelled" in text
    assert "UA 1 from JFK to SFO, came 3 h 10 min behind the newest" in text
    assert "equal the exact answer" in text
    assert "none is lost" in text


def test_summary_without_late_rows_says_so():
    text = summary_text(run(STORM, slack="4 hours"))
    assert "None: no flight was more than 3 h 10 min behind the newest." in text
    assert "(100.0%) equal the exact answer" in text


def test_longer_slack_loses_fewer_rows_and_waits_longer():
    report = run(STORM, slack="1 hour")
    tried = choices(STORM, report.journal, "1 hour")
    assert [c.slack for c in tried] == [pd.Timedelta(t) for t in ("15 min", "1 hour", "190 min")]
    assert [c.right for c in tried] == sorted(c.right for c in tried)
    assert tried[1].right == report.check.right / report.check.windows
    assert tried[-1].right == 1


def test_live_table_fits_a_small_terminal():
    console = Console(width=80, height=24, record=True, file=io.StringIO())
    journal = run(STORM, slack="1 hour").journal
    console.print(LiveTable(console, 5).picture(journal))
    lines = console.export_text().splitlines()
    assert len(lines) <= 23
    assert any("end of stream" in line for line in lines)
    assert any("Mon 24 Jun 13:00" in line for line in lines)


def test_lines_say_where_the_run_stands(capsys):
    journal = run(STORM, slack="1 hour").journal
    Lines(Console(), 5).show(journal)
    shown = capsys.readouterr().out
    expected = "100%  watermark end of stream  newest Mon 24 Jun 13:00  rows 5  late 0"
    assert shown.startswith(expected)


def test_recent_windows_are_kept_newest_first_in_time():
    journal = run(STORM, slack="1 hour").journal
    assert max(journal.recent) == datetime(2013, 6, 24, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("share", "drawn"), [(-1, "    "), (0.5, "██  "), (0.53, "██▏ "), (2, "████")]
)
def test_bar_is_drawn_to_an_eighth(share, drawn):
    assert bar(share, 4) == drawn
