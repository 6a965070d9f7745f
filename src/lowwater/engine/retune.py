"""Parameters that may be changed while a query runs: which it has, and which values they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowwater.control.retune import RetuneRequest
from lowwater.engine.controller import Controller
from lowwater.errors import PlanError, SpecError
from lowwater.planner.shedding import check_gap
from lowwater.shedding.shedder import LoadShedder

PARAMETERS = {
    "quality": "a stream with watermark=lw.quality(...)",
    "aggressiveness": "early=lw.early_before(...)",
    "accuracy": "early=lw.early_before(accuracy=...)",
    "max_gap": "shed=lw.shed(...)",
}
"""What may be changed, and what a query must have been started with to have it."""


def retuning(controller: Controller, given: Mapping[str, Any]) -> RetuneRequest:
    """Return the demand for other parameters, None for those that stay; refuse what cannot be."""
    values = {name: value for name, value in given.items() if value is not None}
    known = controller.settings
    if not values:
        told = ", ".join(f"{name}=" for name in known)
        raise SpecError(
            f"retune() says nothing to change; this query has {told}"
            if known
            else "retune(): this query has no parameter that can be changed while it runs"
        )
    for name in values:
        if name not in known:
            raise PlanError(
                f"retune({name}=...): the query was started without {PARAMETERS[name]}, so there "
                f"is no {name} to change"
            )
    try:
        tuned = controller.having(values)
        if "max_gap" in values and isinstance(tuned.shedder, LoadShedder):
            check_gap(tuned.shedder)
    except TypeError as problem:
        told = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise SpecError(f"retune({told}): {problem}") from problem
    return RetuneRequest({name: tuned.settings[name] for name in values})
