"""Benchmarks: Lowwater against Spark's own window aggregation, on the same file stream.

Each run has a process and a JVM of its own; both sides share one session
configuration, read the same Parquet files one per epoch and write Parquet. The
package mirrors that: `data` makes the stream, `cases` has the queries,
`native` and `ours` run them, `worker` is one run, `run` alternates and compares.

    python -m bench                    every case, then idle epochs and state size
    python -m bench sliding-60 idle    the named ones
"""
