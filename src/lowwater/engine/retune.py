"""Checks of `run.retune()`: which parameters a query has, and which values they accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowwater.control.retune import RetuneRequest
from lowwater.engine.controller import Controller
from lowwater.errors import PlanError, SpecError
from lowwater.planner.shedding import check_gap, check_weights
from lowwater.shedding.shedder import LoadShedder

PARAMETERS = {
    "quality": "watermark=lw.quality(...) of a stream",
    "aggressiveness": "early=lw.early_before(...)",
    "accuracy": "early=lw.early_before(accuracy=...)",
    "max_gap": "shed=lw.shed(...)",
    "need": "need=lw.need(...)",
    "latency": "shed=lw.shed(latency=...)",
    "memory": "shed=lw.shed(memory=...)",
    "gives": "shed=lw.shed(latency=...)",
    "share": "shed=lw.shed(share=...)",
    "weights": "shed=lw.shed(weights=...)",
}
"""The parameters that can be retuned, each with the option that introduces it."""


def retuning(controller: Controller, given: Mapping[str, Any]) -> RetuneRequest:
    """Return a request for the `given` values that are not None; raise if a value is not usable."""
    values = {name: value for name, value in given.items() if value is not None}
    known = controller.settings
    if not values:
        names = ", ".join(f"{name}=" for name in known)
        raise SpecError(
            f"retune() names no parameter to change; this query has {names}"
            if known
            else "retune(): this query has no parameter that can be changed while it runs; start "
            f"it with one of: {', '.join(PARAMETERS.values())}"
        )
    for name, value in values.items():
        if name not in known:
            raise PlanError(
                f"retune({name}={value!r}): the query was started without "
                f"{PARAMETERS[name]}, so it has no {name} to change; start it with that option"
            )
    try:
        tuned = controller.having(values)
        if isinstance(tuned.shedder, LoadShedder) and tuned.shedder != controller.shedder:
            if tuned.shedder.how.kind == "windows":
                check_gap(tuned.shedder)
            check_weights(controller.flow, tuned.shedder.how)
    except TypeError as problem:
        arguments = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise SpecError(f"retune({arguments}): {problem}") from problem
    return RetuneRequest({name: tuned.settings[name] for name in values})
