"""Which streams the command of the arena judges, files of one's own included."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from experiments.arena.parts import run_parts
from experiments.arena.selection import Selection, name_of, own_recordings, stream_of
from lowwater import SpecError
from lowwater.ticks import TICKS_PER_SECOND as SECOND


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "log.parquet"
    at = np.array([5, 3, 9, 7]) * SECOND
    columns = {"ts": pa.array(at), "came": pa.array(at + np.array([0, 9 * SECOND, 0, 1]))}
    pq.write_table(pa.table({**columns, "host": ["b", "a", None, "b"], "n": [1, None, 3, 4]}), path)
    return f"log={path},time=ts:us,arrival=came:us"


def test_a_file_of_ones_own_is_a_held_out_stream_in_the_order_of_arrival(text: str) -> None:
    (mine,) = own_recordings([text], "10 seconds", "1 second", "host", "n")
    stream = stream_of(mine)
    assert (stream.name, stream.split) == ("log", "held out")
    assert (stream.range, stream.slide, stream.epoch) == (10 * SECOND, 10 * SECOND, SECOND)
    assert (stream.ts // SECOND).tolist() == [5, 7, 9, 3]
    assert len(set(stream.key[:2].tolist())) == 1
    assert len(set(stream.key.tolist())) == 3
    assert stream.value.tolist() == [1.0, 4.0, 3.0, 0.0]


def test_leads_lie_within_a_window() -> None:
    assert Selection(leads=(0.0, 0.25)).leads == (0.0, 0.25)
    for lead in (-0.1, 1.0, float("nan")):
        with pytest.raises(SpecError, match=r"--lead .* must be at least 0 and below 1"):
            Selection(leads=(lead,))


def test_names_choose_families_and_recordings(text: str) -> None:
    own = own_recordings([text], "1 minute", "5 seconds", None, None)
    chosen = Selection((3, 4), ("storms", "tls"), own)
    assert [name_of(one) for one in chosen.sources] == ["storms/3", "storms/4", "tls", "log"]
    assert len(Selection().sources) > 40


def test_unknown_names_are_refused_before_anything_runs(text: str, tmp_path: Path) -> None:
    console = Console(quiet=True)
    with pytest.raises(SpecError, match="--part window is unknown; write one of joins, times"):
        run_parts(["window"], Selection(), console, tmp_path)
    with pytest.raises(SpecError, match="--stream tlss is unknown"):
        run_parts(["windows"], Selection(names=("tlss",)), console, tmp_path)
    with pytest.raises(SpecError, match="hosts"):
        stream_of(own_recordings([text], "1 minute", "1 second", "hosts", None)[0])
