"""`python -m chaos`: schedules of faults, flipped bits, and mutants that the harness must find."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from chaos.mutants import find_mutants
from chaos.report import Report
from chaos.simulate import run_chunk
from chaos.spark_report import run_on_spark
from chaos.spark_schedule import chosen_seeds

CHUNK = 50


def main() -> int:
    """Run the chosen part; the exit code is 1 if an answer was silently wrong."""
    chosen = _arguments()
    if chosen.part == "mutants":
        return find_mutants(chosen.schedules, chosen.names)
    if chosen.part == "spark":
        seeds = chosen_seeds(chosen.seed, chosen.schedules, chosen.points, chosen.kinds)
        return run_on_spark(seeds, until_wrong=chosen.until_wrong)
    began, report = time.monotonic(), Report()
    ends = range(chosen.seed, chosen.seed + chosen.schedules, CHUNK)
    chunks = [range(a, min(a + CHUNK, chosen.seed + chosen.schedules)) for a in ends]
    with ProcessPoolExecutor(chosen.processes, get_context("spawn")) as pool:
        parts = [pool.submit(run_chunk, seeds) for seeds in chunks]
        for part in as_completed(parts):
            report.merge(part.result())
            _show(f"\r{report.schedules} schedules, {len(report.wrong)} wrong")
            if report.wrong and chosen.until_wrong:
                pool.shutdown(cancel_futures=True)
                break
    _show("\r")
    sys.stdout.write(report.text(time.monotonic() - began) + "\n")
    return 1 if report.wrong else 0


def _show(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    local = parts.add_parser("local", help="schedules on the local host, in memory")
    local.add_argument("--schedules", type=int, default=2_000)
    local.add_argument("--seed", type=int, default=0, help="the first seed")
    local.add_argument("--processes", type=int, default=2)
    local.add_argument("--until-wrong", action="store_true", help="stop at the first wrong answer")
    spark = parts.add_parser("spark", help="schedules on Spark, with real processes and files")
    spark.add_argument("--schedules", type=int, default=200)
    spark.add_argument("--seed", type=int, default=0, help="the first seed")
    spark.add_argument("--until-wrong", action="store_true", help="stop at the first wrong answer")
    spark.add_argument("--kinds", nargs="*", default=[], help="only these kinds of faults")
    spark.add_argument("--points", nargs="*", default=[], help="only these points")
    mutants = parts.add_parser("mutants", help="put known faults back, and look for them")
    mutants.add_argument("--schedules", type=int, default=2_000, help="at most, for each mutant")
    mutants.add_argument("names", nargs="*", help="names of patches; by default all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
