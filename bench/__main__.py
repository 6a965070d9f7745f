"""The command `python -m bench [CASE ...]`: results on standard output, progress beside it."""

from __future__ import annotations

import argparse
import signal
import sys
from importlib import import_module

from bench.cases import ALONE, COMPARED, TWINS
from bench.compare import ResultsDifferError
from bench.processes import WorkerError
from bench.report import case_figures, case_line, idle_figures, state_figures, twin_line
from bench.run import Options, against_itself, alone, compare, say

IN_ONE_PROCESS = ("kinds", "targets", "learners", "orders", "shedding", "checksums")
"""Kinds of windows; what targets and their learners cost; order; overload; what checksums cost.
Modules of these names, run only when they are asked for."""
NAMES = (*COMPARED, *ALONE, *TWINS)
_FIGURES = {"idle": idle_figures, "state": state_figures}


def main() -> int:
    """Run the chosen cases, print their lines as they come and the other figures last."""
    chosen = _arguments()
    # Asked to end, it still ends its worker and removes what that has written.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = Options(chosen.repetitions, chosen.rows_scale, chosen.store, chosen.timeout)
    names = chosen.cases or list(NAMES)
    figures: list[str] = []
    try:
        for name in names:
            if name in COMPARED:
                case = COMPARED[name]
                pairs = compare(case, options)
                _print(case_line(case, pairs))
                rows = case.data.scaled(options.rows_scale).rows
                figures += case_figures(case, pairs, rows)
            elif name in TWINS:
                found = against_itself(TWINS[name], options)
                _print(twin_line(found, TWINS[name][0].data.files))
            elif name in IN_ONE_PROCESS:
                lines = getattr(import_module(f"bench.{name}"), name)
                for line in lines(options.rows_scale):
                    _print(line)
            else:
                figures += _FIGURES[name](ALONE[name], alone(ALONE[name], options))
    except (WorkerError, ResultsDifferError) as problem:
        say(f"{name}: {problem}")
        return 1
    finally:
        for figure in figures:
            _print(figure)
    return 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        help=f"one of {', '.join(NAMES)}; all of them by default; or {', '.join(IN_ONE_PROCESS)}",
    )
    parser.add_argument("--repetitions", type=int, default=3, help="runs per side (3)")
    parser.add_argument(
        "--rows-scale", type=float, default=1.0, help="0.1 for a quick try with a tenth of the rows"
    )
    parser.add_argument(
        "--store", choices=("hdfs", "rocksdb"), help="Spark's state store, instead of the faster"
    )
    parser.add_argument("--timeout", type=float, default=1_800.0, help="seconds per run (1800)")
    chosen = parser.parse_args()
    known = [*NAMES, *IN_ONE_PROCESS]
    unknown = sorted(set(chosen.cases) - {*known})
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(known)}")
    if chosen.repetitions < 1 or chosen.rows_scale <= 0:
        parser.error("--repetitions must be at least 1 and --rows-scale above 0")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
