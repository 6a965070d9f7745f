"""Every transcript holds on the local host; those that are wrong on purpose fail."""

from __future__ import annotations

import pytest

from tests.transcripts.transcript import FOLDER, Transcript

FILES = sorted(FOLDER.glob("*.txt"))
WRONG = sorted(FOLDER.glob("wrong/*.txt"))


def named(path):
    return path.stem


def check_both_ways(transcript):
    transcript.check()
    if transcript.any_order:
        transcript.check(backwards=True)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("path", FILES, ids=named)
def test_transcript_holds(path, shards):
    Transcript.read(path).check(shards=shards)


@pytest.mark.parametrize("path", [p for p in FILES if Transcript.read(p).any_order], ids=named)
def test_rows_of_an_epoch_may_arrive_in_any_order_where_the_file_claims_it(path):
    Transcript.read(path).check(backwards=True)


@pytest.mark.parametrize("path", WRONG, ids=named)
def test_wrong_transcript_fails(path):
    with pytest.raises(AssertionError, match="epoch"):
        check_both_ways(Transcript.read(path))


@pytest.mark.parametrize("path", FILES, ids=named)
def test_transcript_is_printed_as_it_is_written(path):
    assert Transcript.read(path).text() == path.read_text("utf-8")


def test_line_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "odd.txt"
    path.write_text("stream cars: t bigint\nwatermark lw.ordered()\n")
    with pytest.raises(ValueError, match=r"odd\.txt, line 2: cannot read 'watermark lw"):
        Transcript.read(path)


def test_there_is_a_transcript_for_every_kind_of_output():
    lines = " ".join(line for p in FILES for e in Transcript.read(p).epochs for line in e.expected)
    assert all(word in lines for word in ("early", "revised", "late", "dropped", "watermark"))
