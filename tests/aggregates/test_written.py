"""What an aggregate is called where users read it: the call that they wrote."""

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.aggregates.aggregate import Aggregate

ROWS = pa.schema([("v", pa.float64()), ("w", pa.string())])


@pytest.mark.parametrize(
    "text",
    [
        "count()",
        "count('v')",
        "sum('v')",
        "avg('v')",
        "min('v')",
        "max('v')",
        "stddev('v')",
        "variance('v')",
        "first('v')",
        "last('v')",
        "median('v')",
        "quantile('v', 0.25)",
        "quantile('v', [0.5, 0.75])",
        "median('v', sketch=kll(k=400))",
        "count_distinct('w')",
        "count_distinct('w', sketch=hll(lg_k=14))",
        "top_k('w', 3)",
        "top_k('w', 3, sketch=frequent_items(lg_k=12))",
        "mode('w')",
    ],
)
def test_an_aggregate_is_written_as_the_call_that_makes_it(text: str) -> None:
    made = eval(text, vars(lw))  # noqa: S307
    assert isinstance(made, Aggregate)
    assert made.written == text
    assert eval(made.written, vars(lw)) == made  # noqa: S307


def test_a_user_defined_aggregate_is_written_with_its_columns() -> None:
    def made(of: str | list[str]) -> Aggregate:
        return lw.aggregate(
            of, lift=lambda x: x, combine=lambda a, _: a, lower=lambda x: x, returns="double"
        )

    assert made("v").written == "aggregate('v')"
    assert made(["v", "w"]).written == "aggregate(['v', 'w'])"


def test_explain_and_errors_name_a_call_as_the_user_wrote_it() -> None:
    feed = lw.feed("t bigint, v double")
    query = (
        lw.stream(feed, time="t", watermark=lw.ordered())
        .window(range=10)
        .agg(top=lw.max("v"), least=lw.min("v"), mid=lw.median("v"))
    )
    assert "aggregates  top = max('v'), least = min('v'), mid = median('v')" in query.explain()
