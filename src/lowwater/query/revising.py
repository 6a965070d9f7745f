"""Results that late rows correct: for which windows, and who may read them."""

from __future__ import annotations

from typing import Any

from lowwater.errors import SpecError
from lowwater.kernels import OperatorPlan, WindowPlan
from lowwater.kernels.passing import PassPlan
from lowwater.windows import Landmark, Session, SlideByRow

_NUMBERED = "a late row has no number, so it belongs to no window of rows; take range= on a time"
_JOINTLY = "windows on two times close jointly, and no mark lags behind both; take on= one time"
_SINCE_THE_BEGINNING = (
    "windows since the beginning keep one partial for all that have closed, from which none can be "
    "computed again; take a bounded range="
)
_SESSIONS = (
    "a late row may join sessions that were given out into one of another window, so a result "
    "would not keep its key; take range= instead of gap="
)
_ENDED_BY_ROWS = (
    "a late row would end a window that there was not when later ones were given out; take slide= "
    "on the time of the window"
)
_SMOOTH = (
    "with smooth= a final may still wait when its window is corrected, and would come after its "
    "revision; leave smooth= out"
)
_IN_ANY_ORDER = (
    "where punctuation completes stretches of time (since=), windows close in any order, and no "
    "mark lags behind all of them; take punctuation without since="
)


def revised_for(given: Any, plan: WindowPlan) -> int:
    """Return for how long, in ticks, late rows correct results, or why they cannot."""
    if given is None:
        return 0
    why = _unfit(plan)
    if why is not None:
        raise SpecError(f"revise_for={given!r}: {why}, or leave revise_for= out")
    span = plan.axis.span(given, name="revise_for")
    if span <= 0:
        raise SpecError(
            f"revise_for={given!r} must be greater than zero; leave it out where finals are final"
        )
    return span


def _unfit(plan: WindowPlan) -> str | None:
    """Say why windows cannot be given out again, and what to take instead."""
    reasons = (
        (plan.numbering is not None, _NUMBERED),
        (plan.second is not None, _JOINTLY),
        (isinstance(plan.spec, Landmark), _SINCE_THE_BEGINNING),
        (isinstance(plan.spec, Session), _SESSIONS),
        (isinstance(plan.spec, SlideByRow), _ENDED_BY_ROWS),
        (plan.smooth is not None, _SMOOTH),
        (plan.ranged, _IN_ANY_ORDER),
    )
    return next((why for unfit, why in reasons if unfit), None)


def refuse_revised(plan: OperatorPlan, below: OperatorPlan) -> None:
    """Refuse an operator over results that come again."""
    if not isinstance(below, WindowPlan) or not below.revise or isinstance(plan, PassPlan):
        return
    span = below.axis.say(below.revise)
    why = (
        "is past their time when they come, so all of them would be late there"
        if plan.word == "order"
        else "over it would take each as a row of its own, and count twice what is the same"
    )
    raise SpecError(
        f"revise_for={span!r}: a result comes again when late rows correct it, and the "
        f"{plan.word} {why}; leave revise_for= out of the window below and let its rows wait "
        f"longer, lw.slack({span!r}), or give its results to a sink"
    )
