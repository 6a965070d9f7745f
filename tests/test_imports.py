"""The local host needs no Spark."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import lowwater as lw

feed = lw.feed("t bigint")
query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).agg(n=lw.count())
assert query.run(epochs={feed: [[(1,), (2,)]]}).results["n"].to_pylist() == [2]
print([m for m in sys.modules if m.split(".")[0] in ("pyspark", "py4j", "sqlglot", "duckdb")])
"""


def test_a_local_query_loads_neither_spark_nor_what_expressions_need():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_told():
    import lowwater as lw

    for name in lw.__all__:
        assert getattr(lw, name) is not None
        assert getattr(lw, name).__doc__, name
