"""Exact medians, quantiles and distinct counts are those of Spark's own functions, to the bit."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import pytest
from pyspark.sql.functions import expr

import lowwater as lw
from tests.reference.windows import same

SHARES = [0.0, 0.05, 0.1, 0.25, 0.3, 0.5, 0.77, 0.9, 0.95, 1.0]
ODD = [math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, -0.0, 0.1]
DRAWS = {
    "double": lambda r: r.choice([*ODD, r.gauss(0, 1), r.gauss(0, 1), r.gauss(0, 1)]),
    "bigint": lambda r: r.randrange(-(2**62), 2**62),
    "int": lambda r: r.randrange(5),
    "decimal(12, 3)": lambda r: Decimal(r.randrange(-(10**11), 10**11)).scaleb(-3),
    "decimal(38, 10)": lambda r: Decimal(r.randrange(-(10**37), 10**37)).scaleb(-10),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_results_equal_those_of_spark_sql(spark, kind):
    rng = random.Random(1)
    rows = [(t, None if rng.random() < 0.1 else DRAWS[kind](rng)) for t in range(420)]
    frame = spark.createDataFrame(rows, f"t bigint, x {kind}")
    shares = ", ".join(f"{s}D" for s in SHARES)
    asked = [f"percentile(x, array({shares})) qs", "median(x) m", "count(distinct x) u"]
    expected = {
        row["w"]: row.asDict()
        for row in frame.selectExpr("t div 7 as w", "x")
        .groupBy("w")
        .agg(*map(expr, asked))
        .collect()
    }
    feed = lw.feed(f"t bigint, x {kind}")
    query = (
        lw.stream(feed, time="t", watermark=lw.ordered())
        .window(range=7)
        .agg(qs=lw.quantile("x", SHARES), m=lw.median("x"), u=lw.count_distinct("x"))
    )
    found = query.run(epochs={feed: [rows[:200], rows[200:]]}).results.to_pylist()
    assert len(found) == 60
    for row in found:
        for name in ("qs", "m", "u"):
            assert same(expected[row["wid"]][name], row[name]), row
