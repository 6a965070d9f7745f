"""Lengths and slacks as text: short, rounded up, and read back as the same policy."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.cli.policy_text import watermark_of
from lowwater.cli.replay.length import percent, plain_slack, setting, short
from lowwater.windows.axis import Axis

TIME, WHOLE, DECIMAL = (Axis("t", kind) for kind in (pa.timestamp("us"), pa.int64(), pa.float64()))


@given(st.integers(0, 10**14))
def test_a_plain_slack_is_at_most_a_tenth_longer_and_reads_back_as_itself(slack):
    plain = plain_slack(TIME, slack)
    assert slack <= plain <= max(slack * 1.11, slack + 1)
    if slack:
        read = watermark_of(setting(TIME, plain))
        assert read.bind(TIME, pa.schema([])).span == plain


@pytest.mark.parametrize("axis", [WHOLE, DECIMAL])
@given(slack=st.integers(0, 10**12))
def test_a_plain_slack_of_numbers_is_at_most_a_tenth_longer(axis, slack):
    plain = plain_slack(axis, slack)
    assert slack <= plain <= slack * 1.11
    if plain:
        number = float(setting(axis, plain).removeprefix("slack "))
        assert number * axis.per_unit == pytest.approx(plain)


def test_a_share_below_one_is_never_written_as_all():
    assert [percent(s) for s in (1.0, 0.999999, 0.5)] == ["100 %", "99.99 %", "50.00 %"]


def test_short_lengths():
    assert [short(t) for t in (0, 400, 950_000, 59_900_000, 90_000_000, 4 * 86_400_000_000)] == [
        "0 s",
        "0 s",
        "950 ms",
        "60 s",
        "1.5 min",
        "4 d",
    ]
