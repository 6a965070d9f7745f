"""Experiments: found by name, run, saved, reported; a shape that does not hold is an error."""

from __future__ import annotations

import json
import re
from textwrap import dedent

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import experiments as package
import lowwater as lw
from experiments.app import app, main
from experiments.harness import runner as running
from experiments.harness.contract import format_value
from experiments.harness.record import Record, saved
from experiments.harness.registry import experiments, find
from experiments.streams.disorder import Arrivals, Windows, play
from experiments.wid import w1, w2, w3

SECOND = 1_000_000

pytestmark = pytest.mark.experiment


def run_experiments(*arguments):
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, arguments)


@pytest.fixture
def _with_z9(tmp_path, monkeypatch):
    """One more experiment, whose second shape does not hold."""
    code = """
        from matplotlib.figure import Figure
        from experiments.harness.contract import Check, Comparison, Experiment, Outcome

        class Wrong(Experiment):
            id, paper, title, reports = "Z9", "none", "A wrong guess", "that 1 < 2 & 2 < 1"
            here = "counted <twice>"

            def run(self, *, quick):
                checks = [Check("one is less", True, "1 < 2"), Check("two is less", False, "2 < 1")]
                rows = [{"n": 1, "x": 0.5, "y": None}]
                return Outcome(rows, [Comparison("n", "2", "1")], checks, Figure(), {"seed": 7})

        EXPERIMENT = Wrong()
    """
    (tmp_path / "z9.py").write_text(dedent(code))
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    yield
    import sys

    sys.modules.pop("experiments.z9", None)


# -- finding -------------------------------------------------------------------------------------


def test_every_experiment_is_found_by_the_name_of_its_module():
    papers = {"D": 5, "I": 2, "O": 6, "P": 8, "Q": 5, "W": 3}
    assert list(experiments()) == [
        f"{p}{n}" for p, most in papers.items() for n in range(1, most + 1)
    ]
    assert all(e.paper and e.title and e.reports and e.here and e.run.__doc__ for e in find(()))


def test_list_says_what_the_papers_report():
    shown = run_experiments("list")
    assert shown.exit_code == 0
    assert all(word in shown.output for word in ("W1", "W2", "O1", "491 s"))


def test_unknown_experiment_is_named_with_those_there_are(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "W4"])
    assert ended.value.code == 2
    assert "'W4' is not an experiment; choose from: D1, " in capsys.readouterr().err


def test_missing_matplotlib_is_named_in_one_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(running, "find_spec", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        main(["run", "W1", "--out", str(tmp_path)])
    assert ended.value.code == 1
    assert "pip install 'lowwater[demo]'" in " ".join(capsys.readouterr().err.split())


# -- running and reporting -----------------------------------------------------------------------


TIMED = ("D5", "O4", "Q4", "W1")
"""These measure a real clock; the others give the same figures everywhere."""


@pytest.fixture
def coarse_pictures(monkeypatch):
    """Pictures are drawn, but nobody looks at them here."""
    fine = Figure.savefig

    def save(figure, *given, **more):
        figure.set_layout_engine(None)
        return fine(figure, *given, **{**more, "dpi": 40})

    monkeypatch.setattr(Figure, "savefig", save)


@pytest.mark.usefixtures("coarse_pictures")
@pytest.mark.parametrize("id", [id for id in experiments() if id not in TIMED])
def test_shapes_of_simulated_time_hold(id, tmp_path):
    shown = run_experiments("run", id, "--quick", "--out", str(tmp_path))
    assert shown.exit_code == 0, shown.output
    (record,) = saved(tmp_path)
    assert record.id == id
    assert record.quick
    assert record.holds
    assert (tmp_path / record.picture).stat().st_size > 2_000


def test_shapes_of_wall_time_are_measured(tmp_path):
    # A quick run prints its times: it measures too little to judge them.
    shown = run_experiments("run", "w1", "--quick", "--out", str(tmp_path))
    (record,) = saved(tmp_path)
    assert shown.exit_code == 0
    assert [c.judged for c in record.checks] == [True, False, False, False]
    assert record.checks[0].holds, "all ways give the same answers"
    assert [row["SLIDE"] for row in record.rows] == [1, 10, 100, 4_000]


def test_what_a_drop_costs_that_drops_nothing_is_measured(tmp_path):
    shown = run_experiments("run", "D5", "--quick", "--out", str(tmp_path))
    (record,) = saved(tmp_path)
    assert shown.exit_code == 0
    assert [c.judged for c in record.checks] == [False]
    assert [row["size"] for row in record.rows] == [25, 100]


def test_shapes_of_processor_time_are_measured(tmp_path):
    shown = run_experiments("run", "O4", "--quick", "--out", str(tmp_path))
    (record,) = saved(tmp_path)
    assert shown.exit_code == 0
    counted = [c for c in record.checks if c.judged]
    assert {c.name.partition(":")[0] for c in record.checks if not c.judged} == {
        "latency",
        "execution time",
    }
    assert len(counted) == len(record.checks) - 2
    assert all(c.holds for c in counted), counted


def test_cost_of_a_quality_target_is_measured(tmp_path):
    shown = run_experiments("run", "Q4", "--quick", "--out", str(tmp_path))
    (record,) = saved(tmp_path)
    assert shown.exit_code == 0
    assert [c.judged for c in record.checks] == [True, False]
    assert record.checks[0].holds, "both ways give the same pairs"
    assert len(record.checks) == 2


@pytest.mark.usefixtures("_with_z9")
def test_shape_that_does_not_hold_is_an_exit_code(tmp_path):
    shown = run_experiments("run", "Z9", "--out", str(tmp_path))
    assert shown.exit_code == 1
    assert "These do not hold: Z9: two is less" in shown.output
    assert not saved(tmp_path)[0].holds


@pytest.mark.usefixtures("_with_z9")
def test_report_is_one_page_with_every_saved_experiment(tmp_path):
    run_experiments("run", "Z9", "--out", str(tmp_path))
    other = Record.from_json((tmp_path / "z9.json").read_text().replace("Z9", "Z10"))
    (tmp_path / "z10.json").write_text(other.to_json())
    (tmp_path / "z10.png").write_bytes((tmp_path / "z9.png").read_bytes())
    shown = run_experiments("report", "--out", str(tmp_path))
    assert shown.exit_code == 0
    text = (tmp_path / "report.html").read_text()
    assert text.index('id="Z9"') < text.index('id="Z10"')
    assert text.count("data:image/png;base64,") == 2
    assert "that 1 &lt; 2 &amp; 2 &lt; 1" in text
    assert "counted &lt;twice&gt;" in text
    assert "Quick runs" not in text
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text), "the page needs no other file"


@pytest.mark.usefixtures("_with_z9")
def test_report_tells_quick_runs_and_which_paper_is_meant(tmp_path):
    run_experiments("run", "Z9", "--quick", "--out", str(tmp_path))
    path = tmp_path / "z9.json"
    path.write_text(path.read_text().replace('"paper": "none"', '"paper": "WID, figure 1"'))
    run_experiments("report", "--out", str(tmp_path))
    text = (tmp_path / "report.html").read_text()
    assert "Quick runs, with less data and fewer settings: Z9." in text
    assert "WID: Li et al." in text


@pytest.mark.usefixtures("_with_z9")
def test_record_survives_json(tmp_path):
    run_experiments("run", "Z9", "--out", str(tmp_path))
    text = (tmp_path / "z9.json").read_text()
    record = Record.from_json(text)
    assert json.loads(record.to_json()) == json.loads(text)
    assert record.rows == [{"n": 1, "x": 0.5, "y": None}]
    assert [c.holds for c in record.checks] == [True, False]
    assert record.settings == {"seed": 7}


def test_report_of_nothing_says_what_to_run(capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["report", "--out", str(tmp_path)])
    assert ended.value.code == 1
    assert "python -m experiments run" in " ".join(capsys.readouterr().err.split())


def test_file_that_is_no_record_is_named(tmp_path):
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(lw.LowwaterError, match=r"notes\.json is not the record"):
        saved(tmp_path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (4000, "4,000"),
        (0.04567, "0.0457"),
        (7.4, "7.40"),
        (0.0, "0"),
        (1234.5, "1,234"),
        ("x", "x"),
        (None, "–"),
    ],
)
def test_figures_are_written_as_a_person_would(value, text):
    assert format_value(value) == text


# -- what they are made of -----------------------------------------------------------------------


def at(*seconds):
    return (np.array(seconds) * SECOND).astype(np.int64)


#  arrival   1.0   2.0   3.0   4.0   5.0         epochs of 1 s
#  time      1     12    8     14    21
#            └─ window [0, 10): its last row arrives at 3.0 ─┘
STREAM = Arrivals.of(at(1, 12, 8, 14, 21), at(1, 2, 3, 4, 5), np.array([1.0, 2, 3, 4, 5]))
TENS = Windows(range=10 * SECOND, slide=10 * SECOND, since=0, until=10 * SECOND)


def test_mark_follows_the_last_row_before_it():
    marked = STREAM.punctuated(at(10, 20))
    assert (marked.ts // SECOND).tolist() == [1, 12, 8, 10, 14, 20, 21]
    assert marked.mark.tolist() == [False, False, False, True, False, True, False]
    assert (marked.arrived // SECOND).tolist() == [1, 2, 3, 3, 4, 4, 5]


def test_punctuation_acts_in_its_own_epoch():
    marked = STREAM.punctuated(at(10, 20))
    found = play(marked, lw.punctuated("mark"), TENS, lw.sum("value"), epoch=SECOND)
    assert found.answer.tolist() == [4]
    assert found.latency == 1  # the row came at 3.0, its epoch ended at 4.0
    assert found.age == -6


def test_slack_acts_an_epoch_later():
    # 14 is newest + 4 s past the window's end; decided after [4, 5), acted upon in [5, 6).
    found = play(STREAM, lw.slack("4 seconds"), TENS, lw.sum("value"), epoch=SECOND)
    assert found.answer.tolist() == [4]
    assert found.latency == 3


def test_row_that_comes_too_late_is_missing_from_the_answer():
    found = play(STREAM, lw.slack(0, mode="consistent"), TENS, lw.sum("value"), epoch=SECOND)
    assert found.answer.tolist() == [1]
    assert TENS.extents(STREAM)[0].tolist() == [1, 3]


def test_bounded_disorder_is_bounded():
    stream = w2.generate(32)
    behind = np.maximum.accumulate(stream.ts) - stream.ts
    assert 3 * SECOND < behind.max() <= (w2.BOUND + 0.02) * SECOND
    assert (np.diff(stream.arrived) >= 0).all()


def test_blocks_are_shuffled_inside_and_in_order_outside():
    stream = w3.generate(3)
    block = (stream.ts - w3.START) // w3.BLOCK
    assert (np.diff(block) >= 0).all()
    assert np.bincount(block).tolist() == [4_900] * 3
    assert (stream.arrived > stream.ts).all()


def test_generators_give_the_same_stream_again(tmp_path):
    assert (w2.generate(16).arrived == w2.generate(16).arrived).all()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        w1.write(tmp_path / folder, 1, 100)
    first, second = (tmp_path / f / "0000.json" for f in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("slide", [1, 7, 4_000])
def test_buffering_gives_what_window_ids_give(slide, tmp_path):
    w1.write(tmp_path, 3, 3_000)
    source = lw.files(tmp_path, format="json", schema=w1.SCHEMA, files_per_epoch=1)
    assert w1.agree(source, slide)
