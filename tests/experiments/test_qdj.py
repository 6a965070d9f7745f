"""The join of QDJ: counted at once, it gives what the pseudo code gives tuple by tuple."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from experiments.reference.qdj import Join, Pair, Windows
from tests.reference.qdj import by_the_letter

ROWS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 1)), max_size=25)
SLACKS = st.tuples(st.integers(0, 30), st.integers(0, 30))
CHUNKS = st.lists(st.tuples(ROWS, SLACKS), min_size=1, max_size=6)


def pair(rows):
    table = np.array(rows, np.int64).reshape(-1, 2)
    return Pair(table[:, 0], table[:, 1].astype(np.int8))


@given(CHUNKS, st.tuples(st.integers(1, 20), st.integers(1, 20)), st.integers(1, 4), st.data())
def test_counting_gives_what_the_pseudo_code_gives(chunks, windows, unit, data):
    # Times drift upwards, so that the window end moves, purges and overtakes rows.
    drift = data.draw(st.integers(0, 40))
    chunks = [([(t + i * drift, s) for t, s in c], k) for i, (c, k) in enumerate(chunks)]
    join = Join(Windows(windows, unit), 60 + drift * len(chunks))
    for rows, slacks in chunks:
        join.feed(pair(rows), slacks)
        join.settle()
    join.settle(last=True)
    results, end = by_the_letter(chunks, windows, unit)
    assert join.end == end
    assert {t: n for t, n in enumerate(join.given) if n} == {t: n for t, n in results.items() if n}
