"""What a query means and how it will be run, in words."""

from __future__ import annotations

from lowwater.kernels import WindowPlan
from lowwater.progress import Progress
from lowwater.windows import Landmark, classify, describe

_CLASSES = {
    "CF": "context free: a row's windows follow from the row alone",
    "FCF": "forward-context free: a row's windows follow from it and the rows before it",
    "FCA": "forward-context aware: a row's windows depend on rows still to come",
}


def explain(plan: WindowPlan, progress: Progress) -> str:
    """Describe a plan."""
    spec, axis = plan.spec, plan.axis
    say = axis.say
    wclass = classify(spec)
    size = "unbounded" if isinstance(spec, Landmark) else say(spec.range)
    lines = [
        f"window      {describe(spec)}: range {size}, slide {say(spec.slide)}, on {axis.column}",
        f"class       {wclass} ({_CLASSES[wclass]})",
        f"group by    {', '.join(plan.keys) or '(none)'}",
        f"aggregates  {', '.join(f'{n} = {a}' for n, a in plan.aggregates.items())}",
        f"state       {_state(plan)}",
        f"progress    {progress}",
    ]
    if plan.sources_close_groups:
        lines.append(f"            the mark of each {plan.source} closes its own groups")
    return "\n".join(lines)


def _state(plan: WindowPlan) -> str:
    spec, parts = plan.spec, ", ".join(type(p).__name__ for p in plan.parts)
    if plan.keeping == "windows":
        return f"one partial per group and window, since not all aggregates combine ({parts})"
    if isinstance(spec, Landmark):
        return f"one partial per group for closed panes, and open panes of one slide ({parts})"
    return (
        f"panes of {plan.axis.say(spec.pane)}, {spec.panes} to a window, one partial per group and "
        f"pane ({parts})"
    )
