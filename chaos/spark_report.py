"""The report of schedules on Spark: which fault met which point, and what went wrong."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import suppress

from chaos.report import type_of
from chaos.spark_processes import Pool
from chaos.spark_schedule import ANY_MOMENT, FAULTS, PAIRS, chosen_seeds, spark_schedule
from chaos.spark_simulate import Simulation, SparkOutcome
from lowwater.engine.fault_points import POINTS


def run_on_spark(
    first: int, number: int, points: list[str], kinds: list[str], *, until_wrong: bool
) -> int:
    """Run schedules from seed `first` on, print the report; return 1 if one is wrong.

    An interrupt ends the schedules, not the report.
    """
    seeds = chosen_seeds(first, number, points, kinds)
    began, outcomes = time.monotonic(), list[SparkOutcome]()
    with suppress(KeyboardInterrupt), Pool() as pool:
        simulation = Simulation(pool)
        for seed in seeds:
            outcome = simulation.simulate(spark_schedule(seed))
            outcomes.append(outcome)
            _show(_line(outcome))
            if outcome.wrong is not None and until_wrong:
                break
    _show(_text(outcomes, time.monotonic() - began))
    return 1 if any(o.wrong is not None for o in outcomes) else 0


def _show(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _line(outcome: SparkOutcome) -> str:
    plan = outcome.schedule
    point, kind = plan.faults[-1].point, plan.faults[-1].kind
    met = "" if (point, kind) in outcome.met else " (not met)"
    verdict = "exact" if outcome.wrong is None else f"WRONG: {outcome.wrong}"
    text = f"{plan.seed:>5} {kind} at {point}{met}, {plan.query}, {plan.session}: {verdict}"
    return "\n      ".join(
        [f"{text} ({outcome.seconds:.1f} s)", *(e[:300] for e in outcome.errors)]
    )


def _text(outcomes: list[SparkOutcome], seconds: float) -> str:
    met = Counter(pair for o in outcomes for pair in o.met)
    errors = Counter(type_of(error) for o in outcomes for error in o.errors)
    wrong = [o for o in outcomes if o.wrong is not None]
    points, width = (*POINTS, ANY_MOMENT), max(map(len, FAULTS))
    lines = ["", " " * width + "".join(f"{point[:9]:>10}" for point in points)]
    for kind in FAULTS:
        cells = [str(met[p, kind]) if (p, kind) in PAIRS else "–" for p in points]
        lines.append(f"{kind:<{width}}" + "".join(f"{cell:>10}" for cell in cells))
    lines += ["", f"errors that named the fault: {sum(errors.values())}"]
    lines += [f"  {n:>6} {text}" for text, n in errors.most_common(20)]
    rate = len(outcomes) / seconds * 3_600
    lines += [
        "",
        f"{len(outcomes)} schedules in {seconds:.0f} s ({rate:.0f} per hour)",
        f"pairs of point and fault met: {sum(met[p] > 0 for p in PAIRS)} of {len(PAIRS)}",
        f"wrong: {len(wrong)}",
    ]
    lines += [f"  seed {o.schedule.seed}: {o.schedule}\n    {o.wrong}" for o in wrong]
    lines += [f"repeat it: python -m chaos spark --seed {o.schedule.seed}" for o in wrong[:1]]
    return "\n".join(lines)
