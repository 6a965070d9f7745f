"""`python -m chaos`: schedules of faults, flipped bits, and mutants that the harness must find."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from multiprocessing import get_context
from typing import TypeVar

import pyarrow as pa

from chaos.flips import Flips, run_flips
from chaos.mutants import find_mutants
from chaos.report import Report
from chaos.simulate import run_chunk

CHUNK = 50
_SHOWN = 20
"""The number of chunks between two lines of progress."""
Part = TypeVar("Part", Report, Flips)


def main() -> int:
    """Run the chosen part; the exit code is 1 if an answer was silently wrong."""
    chosen = _arguments()
    if chosen.part == "mutants":
        return find_mutants(chosen.schedules, chosen.processes, chosen.names)
    if chosen.part == "flips":
        return _run_all(chosen, chosen.places, run_flips, Flips())
    if chosen.part == "spark":
        from chaos.spark_report import run_on_spark  # needs Spark

        pairs = chosen.points, chosen.kinds
        return run_on_spark(chosen.seed, chosen.schedules, *pairs, until_wrong=chosen.until_wrong)
    return _run_all(chosen, chosen.schedules, run_chunk, Report())


def _run_all(
    chosen: argparse.Namespace, number: int, run: Callable[[range], Part], report: Part
) -> int:
    """Run `number` seeds in several processes, print their report, and return the exit code."""
    began = time.monotonic()
    with ExitStack() as stack:
        for done, part in enumerate(_parts(stack, chosen, number, run), 1):
            report.merge(part)
            if done % _SHOWN == 0:
                said = f"{done * _size(chosen)} of {number}, {len(report.wrong)} wrong"
                sys.stderr.write(f"{said}, {time.monotonic() - began:.0f} s\n")
            if report.wrong and chosen.until_wrong:
                break
    sys.stdout.write(report.text(time.monotonic() - began) + "\n")
    return 1 if report.wrong else 0


def _parts(
    stack: ExitStack, chosen: argparse.Namespace, number: int, run: Callable[[range], Part]
) -> Iterator[Part]:
    """Yield the reports of all chunks as they end, in this process if one process is enough."""
    size = _size(chosen)
    end = chosen.seed + number
    chunks = [range(at, min(at + size, end)) for at in range(chosen.seed, end, size)]
    # A process has one core: threads of Arrow would only wait for each other.
    pa.set_cpu_count(1)
    if chosen.processes == 1 or len(chunks) == 1:
        yield from map(run, chunks)
        return
    workers = chosen.processes, get_context("spawn"), pa.set_cpu_count, (1,)
    pool = stack.enter_context(ProcessPoolExecutor(*workers))
    parts = [pool.submit(run, seeds) for seeds in chunks]
    stack.callback(pool.shutdown, cancel_futures=True)
    for part in as_completed(parts):
        yield part.result()


def _size(chosen: argparse.Namespace) -> int:
    """Return the number of seeds in a chunk; small chunks end soon after the first wrong one."""
    return 10 if chosen.until_wrong else CHUNK


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--seed", type=int, default=0, help="the first seed")
    common.add_argument("--processes", type=int, default=2)
    common.add_argument("--until-wrong", action="store_true", help="stop at a wrong answer")
    parts = parser.add_subparsers(dest="part", required=True)
    local = parts.add_parser("local", parents=[common], help="schedules on the local host")
    local.add_argument("--schedules", type=int, default=2_000)
    flips = parts.add_parser("flips", parents=[common], help="flipped bits in checkpoints")
    flips.add_argument("--places", type=int, default=10_000)
    spark = parts.add_parser("spark", help="schedules on Spark, with real processes and files")
    spark.add_argument("--schedules", type=int, default=200)
    spark.add_argument("--seed", type=int, default=0, help="the first seed")
    spark.add_argument("--until-wrong", action="store_true", help="stop at a wrong answer")
    spark.add_argument("--kinds", nargs="*", default=[], help="only these kinds of faults")
    spark.add_argument("--points", nargs="*", default=[], help="only these points")
    mutants = parts.add_parser("mutants", help="put known faults back, and look for them")
    mutants.add_argument("--schedules", type=int, default=2_000, help="at most, for each mutant")
    mutants.add_argument("--processes", type=int, default=2)
    mutants.add_argument("names", nargs="*", help="names of patches; by default all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
