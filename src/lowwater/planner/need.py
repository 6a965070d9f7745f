"""Plans needs: what a need sets for a query, which options win over it, and which needs cannot be.

A need sets what the user has left open: the watermark of streams without `watermark=`, early
results of queries without `early=`, and drops of queries without `shed=`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowwater.dataflow.graph import Dataflow, Output
from lowwater.early.policies import ProdPolicy
from lowwater.early.request import EarlyWanted
from lowwater.errors import SpecError
from lowwater.needs.part import FINAL, NeedPart
from lowwater.needs.policy import NeedPolicy
from lowwater.needs.statement import GIVES, Need
from lowwater.operators.operator import OperatorPlan
from lowwater.operators.window.plan import WindowPlan
from lowwater.planner.compatibility import refuse, rule_for
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.planner.shedding import check_fair_by
from lowwater.shedding.policy import ShedPolicy, shed
from lowwater.ticks import spoken, ticks
from lowwater.watermarks.adaptive.policies import Quality
from lowwater.watermarks.policy import WatermarkPolicy

Needs = Need | Mapping[str, Need] | None
"""A need, needs by the name of a query, or None."""
LONGEST_GAP = 100
"""The largest number of consecutive windows that a need drops."""


@dataclass(frozen=True, kw_only=True)
class NeedSlack(Quality):
    """The watermark policy of a stream whose slack a need limits."""

    target: float = FINAL


def watermark_of(need: Needs) -> WatermarkPolicy | None:
    """Return the policy for streams without `watermark=`; None without a need."""
    return None if need is None else NeedSlack()


def need_parts(
    assembly: PhysicalPlan, need: Needs, *, sideline: Any = None
) -> tuple[NeedPart, ...]:
    """Return the needs of the outputs of a plan; raise SpecError if one can never be had."""
    if need is None:
        return ()
    outputs = {output.name: output for output in assembly.flow.outputs}
    given = _by_name(need, outputs)
    return tuple(_part(assembly, outputs[n], one, sideline) for n, one in given.items())


def _by_name(need: Any, outputs: Mapping[str, Output]) -> Mapping[str, Need]:
    """Return {name of an output: its need}."""
    if isinstance(need, Need):
        if len(outputs) > 1:
            raise SpecError(
                f"need={need.describe()!r} is for one query, and the run has several; name it, "
                f"need={{{next(iter(outputs))!r}: lw.need(...)}}"
            )
        return dict.fromkeys(outputs, need)
    wrong = not isinstance(need, Mapping) or any(not isinstance(n, Need) for n in need.values())
    if wrong or not need:
        raise SpecError(
            f"need={need!r} is not a need; write need=lw.need(fresh='30 seconds', right=0.98), or "
            f"for several queries {{name: lw.need(...)}}"
        )
    for name in need:
        if name not in outputs:
            raise SpecError(
                f"need= has a need for {name!r}, which is not a query of the run; the queries are: "
                f"{', '.join(outputs)}"
            )
    return need  # type: ignore[no-any-return]


def _part(assembly: PhysicalPlan, output: Output, need: Need, sideline: Any) -> NeedPart:
    flow = assembly.flow
    plan = flow.operators[output.operator].plan
    labels = plan.labels if plan.aggregates_rows else {"rows"}
    refuse("need", labels, f"need={need.describe()!r}")
    if any(i.axis.kind != "time" for i in flow.inputs):
        raise SpecError(
            f"need={need.describe()!r}: {plan.axes[0].column!r} is a number, so no clock runs with "
            f"its windows; take windows over a timestamp, or set watermark= and early="
        )
    _refuse_unjudged(plan, need)
    inputs = tuple(
        n for n, i in enumerate(flow.inputs) if output.operator in _behind(flow, i.routes)
    )
    gives = tuple(_gives(flow, output, need, sideline))
    _refuse_resources(need, gives)
    if need.fair_by is not None:
        check_fair_by(flow, need.fair_by, f"need(fair_by={need.fair_by!r})")
    waits = all(isinstance(assembly.policies[n], NeedSlack) for n in inputs)
    windows = plan.scheduled_windows
    return NeedPart(output.name, output.operator, need, windows, inputs, gives, waits)


def _refuse_unjudged(plan: OperatorPlan, need: Need) -> None:
    """Raise SpecError if no aggregate shows how right an early result was."""
    if not plan.numeric_aggregates:
        names = ", ".join(plan.named_aggregates)
        raise SpecError(
            f"need={need.describe()!r}: how right a first answer was is measured on numbers, and "
            f"{names or 'the query'} has none; add one to agg(...), for example n=lw.count()"
        )


def _refuse_resources(need: Need, gives: Sequence[str]) -> None:
    """Raise SpecError for parts of a need that no policy keeps."""
    if need.fair_by is not None and "windows" not in gives:
        raise SpecError(
            f"need(fair_by={need.fair_by!r}): groups share the loss of windows, and this query "
            f"gives up {', '.join(gives) or 'nothing'}; leave fair_by= out, or add 'windows' to "
            f"gives="
        )
    if need.memory is not None and "windows" not in gives:
        raise SpecError(
            f"need(memory={need.memory!r}): state gets smaller only if windows are dropped, and "
            f"this query gives up {', '.join(gives) or 'nothing'}; leave memory= out, or add "
            f"'windows' to gives="
        )


def _gives(flow: Dataflow, output: Output, need: Need, sideline: Any) -> Iterator[str]:
    """Yield what the query can give up, in the order of the need."""
    labels = {label for operator in flow.operators for label in operator.plan.labels}
    labels |= {"sideline"} if sideline else set()
    rule = rule_for("shed", labels)
    if rule is not None and need.gives is not None and "windows" in need.gives:
        raise SpecError(rule.text(f"need(gives={need.gives!r}) of {output.name!r}"))
    for name in GIVES if need.gives is None else need.gives:
        if name != "windows" or rule is None:
            yield name


def _behind(flow: Dataflow, routes: Sequence[Any]) -> set[int]:
    """Return the operators that rows of `routes` reach."""
    found = {route.operator for route in routes}
    for number in sorted(found):
        found |= _behind(flow, flow.operators[number].routes)
    return found


def refuse_trigger(need: Needs, trigger: str | None) -> None:
    """Raise SpecError if epochs are too far apart for a need."""
    needs = need.values() if isinstance(need, Mapping) else [need]
    for one in (n for n in needs if isinstance(n, Need) and trigger is not None):
        if one.fresh_ticks < 2 * ticks(trigger or "", name="trigger"):
            raise SpecError(
                f"need(fresh={one.fresh!r}) with trigger={trigger!r}: an epoch reads the rows and "
                f"the next one answers, so an answer takes two epochs; set a shorter trigger=, or "
                f"fresh= to twice the trigger or more"
            )


def early_of(parts: Sequence[NeedPart], early: Any) -> Any:
    """Return `early`, or the policy that requests what needs ask for."""
    return EarlyWanted() if parts and early is None else early


def shed_of(parts: Sequence[NeedPart], flow: Dataflow, given: Any) -> ShedPolicy | Any:
    """Return `given`, or the drops that the needs allow; None if some output must keep its windows.

    All outputs of a run drop the same intervals of time.
    """
    giving = [part for part in parts if "windows" in part.gives]
    if given is not None or not giving or len(giving) < len(flow.outputs):
        return given
    keys = {part.need.fair_by for part in giving}
    if len(keys) > 1:
        each = ", ".join(f"{p.name}: fair_by={p.need.fair_by!r}" for p in giving)
        raise SpecError(
            f"need(fair_by=...) differs between queries that drop windows together ({each}); give "
            f"all of them the same, or run them apart"
        )
    sizes = [size for p in giving if (size := p.need.memory_bytes) is not None]
    return shed(
        latency=spoken(min(p.need.fresh_ticks for p in giving)),
        max_gap=LONGEST_GAP,
        gives="max_gap",
        memory=min(sizes, default=None),
        weights={p.name: p.need.weight for p in giving},
        fair_by=next(iter(keys)),
    )


def with_needs(assembly: PhysicalPlan, parts: tuple[NeedPart, ...], shed: Any) -> PhysicalPlan:
    """Return `assembly` with the policy of needs, which decides on drops unless `shed` does."""
    if not parts:
        return assembly
    drops = shed is None and assembly.shedder is not None
    operators = list(assembly.flow.operators)
    for number in {part.operator for part in parts}:
        plan = operators[number].plan
        if isinstance(plan, WindowPlan) and plan.tracked is None and plan.bound is None:
            operators[number] = replace(operators[number], plan=plan.judged_by(None))
    flow = replace(assembly.flow, operators=tuple(operators))
    return replace(assembly, flow=flow, needs=NeedPolicy(parts, drops))


def need_lines(
    assembly: PhysicalPlan, parts: Sequence[NeedPart], early: Any, shed: Any
) -> Iterator[str]:
    """Yield the lines of `explain()` on needs: the promises, and what keeps them."""
    for part in parts:
        name = f" of {part.name}" if len(parts) > 1 else ""
        yield f"need{name:<8}{part.need.describe()}"
        yield f"            gives up, in this order: {', '.join(part.gives) or 'nothing'}"
        for number in part.inputs:
            yield f"            {_slack(assembly, number)}"
        yield f"            {_early(early)}"
        yield f"            {_drops(part, shed, shed_of(parts, assembly.flow, None))}"


def _slack(assembly: PhysicalPlan, number: int) -> str:
    policy = assembly.policies[number]
    if isinstance(policy, NeedSlack):
        return f"input {number + 1} waits for {FINAL:g} of its rows, as long as the need allows"
    return f"input {number + 1} has a watermark= of its own, which wins: the need sets no slack"


def _early(early: Any) -> str:
    if early is None or isinstance(early, EarlyWanted):
        return "early results of ended windows, if their finals would come after fresh="
    one = early if isinstance(early, ProdPolicy) else "a stream"
    return f"early= wins: {type(one).__name__} requests early results, the need requests none"


def _drops(part: NeedPart, given: Any, own: ShedPolicy | None) -> str:
    if given is not None:
        return "shed= wins: it decides on drops"
    if own is not None:
        return f"windows are dropped only if work takes longer than {spoken(own.latency or 0)}"
    wanted = "windows" in part.gives
    why = "another query of the run must keep its windows" if wanted else "gives= does not name it"
    return f"no window is dropped: {why}"
