"""The transcripts on Spark: the same results and late rows, epoch by epoch."""

from __future__ import annotations

import pytest

import lowwater as lw
from tests.transcripts.transcript import FOLDER, Transcript, rows_as_lines

FILES = sorted(FOLDER.glob("*.txt"))
OTHERS = ("watermark ", "malformed ", "dropped ")
"""Beginnings of lines that these runs do not collect."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript_holds_on_spark(spark, path):
    transcript = Transcript.read(path)
    query, epochs = transcript.build()
    results, late = lw.to_memory(), lw.to_memory()
    options = {"clock": lw.VirtualClock(), **transcript.options}
    query.run(epochs=epochs, host="spark", sink=results, late=late, **options)
    for number, epoch in enumerate(transcript.epochs):
        emitted = rows_as_lines(
            *(s.epochs[number].to_pylist() if number in s.epochs else [] for s in (results, late))
        )
        expected = [line for line in epoch.expected if not line.startswith(OTHERS)]
        assert sorted(emitted) == sorted(expected), f"epoch {number}"
