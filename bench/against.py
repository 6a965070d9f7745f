"""`python -m bench.against CHECKOUT [CASE ...]`: this checkout's Lowwater against another one's.

Every case runs on both by turns, each run in a process of its own. For wall time and for processor
seconds of the process tree, a line has the medians of both, their ratio, and the range of each.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.cases import EVERY, Case
from bench.data import home, prepare
from bench.processes import run_module
from bench.run import say

HERE = Path(__file__).resolve().parent.parent
UNLIKE = ("paned-60", "one-of-8", "no-prods")
"""Cases whose Lowwater side is that of another case."""
DEFAULT = tuple(name for name in EVERY if name not in UNLIKE)


def main() -> int:
    """Run the chosen cases by turns and print two lines for each."""
    chosen = _arguments()
    for name in chosen.cases or DEFAULT:
        runs: dict[Path, list[tuple[float, float]]] = {HERE: [], chosen.checkout: []}
        for _ in range(chosen.runs):
            for root, found in runs.items():
                found.append(_measure(EVERY[name], root, chosen.timeout))
                say(f"{name}: {root.name} took {found[-1][0]:.2f} s, {found[-1][1]:.2f} s of CPU")
        for at, what in enumerate(("wall", "cpu")):
            sys.stdout.write(_line(name, what, *([r[at] for r in rs] for rs in runs.values())))
            sys.stdout.flush()
    return 0


def _measure(case: Case, root: Path, timeout: float) -> tuple[float, float]:
    """Return wall and processor seconds of one run of a checkout."""
    folder = prepare(case.data)
    with tempfile.TemporaryDirectory(prefix="run-", dir=home()) as work:
        result = Path(work, "result.json")
        given = {
            "--case": case.name,
            "--side": "lowwater",
            "--store": case.store,
            "--folder": str(folder),
            "--work": work,
            "--result": str(result),
        }
        arguments = [word for option in given.items() for word in option]
        usage = run_module("bench.worker", arguments, Path(work, "log.txt"), timeout, root)
        return float(json.loads(result.read_text())["seconds"]), usage.cpu_seconds


def _line(name: str, what: str, here: Sequence[float], there: Sequence[float]) -> str:
    mine, other = median(here), median(there)
    ranges = (f"{min(s):.2f}-{max(s):.2f}" for s in (here, there))
    figures = (f"{mine:.2f}", f"{other:.2f}", f"{mine / other:.3f}", *ranges)
    return "\t".join([name, what, *figures]) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the other checkout")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"by default {', '.join(DEFAULT)}")
    parser.add_argument("--runs", type=int, default=5, help="runs per checkout (5)")
    parser.add_argument("--timeout", type=float, default=1_800.0, help="seconds per run (1800)")
    chosen = parser.parse_args()
    chosen.checkout = chosen.checkout.resolve()
    unknown = sorted(set(chosen.cases) - {*EVERY})
    if unknown or chosen.runs < 1:
        parser.error(f"no case {', '.join(unknown)}" if unknown else "--runs must be at least 1")
    if not (chosen.checkout / "bench" / "worker.py").exists():
        parser.error(f"{chosen.checkout} is not a checkout: it has no bench/worker.py")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
