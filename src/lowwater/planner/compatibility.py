"""The compatibility table: which features work with which windows, aggregates and operators.

A label names something that a query has: a kind of window, aggregate or operator, or a feature. A
rule refuses one feature for queries with certain labels, and states the reason and the remedy. All
other combinations work. Error texts and `docs/compatibility.md` are generated from this table, and
a test runs every combination.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lowwater.errors import SpecError
from lowwater.planner.labels import FEATURES

DRIVEN = ("row", "slide_on", "session")
NUMBERED = ("arrival", "rank")


@dataclass(frozen=True)
class Rule:
    """A rule that refuses `feature` for queries with one of `labels`."""

    feature: str
    labels: tuple[str, ...]
    reason: str
    remedy: str

    def text(self, written: str) -> str:
        """Return the error text: `written` (the user's code), the reason, and the remedy."""
        return f"{written}: {self.reason}; {self.remedy}"


_NO_LATENESS = "or leave allowed_lateness= out"
_SINCE = "a punctuation with since= completes an interval of time before earlier ones"
_REVISED = (
    "leave allowed_lateness= out of the window below and wait longer for its rows, lw.slack(...), "
    "or write its results to a sink"
)

RULES = (
    # -- allowed_lateness
    Rule("allowed_lateness", NUMBERED,
         "a late row has no number, so it belongs to no window of rows",
         f"take range= on a time, {_NO_LATENESS}"),
    Rule("allowed_lateness", ("both times",),
         "windows on two times close jointly, and no watermark lags behind both",
         f"name one time in on=, {_NO_LATENESS}"),
    Rule("allowed_lateness", ("landmark",),
         "all closed windows since the beginning share one partial aggregate, from which none can "
         "be computed again",
         f"take a bounded range=, {_NO_LATENESS}"),
    Rule("allowed_lateness", ("session",),
         "a late row may merge emitted sessions into one with another window, so a result would "
         "not keep its key",
         f"take range= instead of gap=, {_NO_LATENESS}"),
    Rule("allowed_lateness", ("row", "slide_on"),
         "a late row would end a window that did not exist when later ones were emitted",
         f"take slide= on the time of the window, {_NO_LATENESS}"),
    Rule("allowed_lateness", ("flush",),
         "with flush= a final may wait while its window is revised, and would follow its revision",
         f"leave flush= out, {_NO_LATENESS}"),
    Rule("allowed_lateness", ("since",),
         "where punctuation completes intervals of time (since=), windows close in any order, and "
         "no watermark lags behind all of them",
         f"take punctuation without since=, {_NO_LATENESS}"),
    Rule("allowed_lateness", ("second level",),
         "late rows make a window emit its result again, and an operator over it would count each "
         "version as a separate row",
         _REVISED),
    Rule("allowed_lateness", ("order over results",),
         "late rows make a window emit its result again, and order() would find it late", _REVISED),
    # -- flush
    Rule("flush", NUMBERED,
         "flush= counts its delay on the attribute of windows, and numbered rows have none",
         "take a range on a column"),
    Rule("flush", ("sliding", "named", "landmark", *DRIVEN),
         "flush= needs windows that do not overlap: otherwise a row that is late for a window "
         "could still enter it while its result waits",
         "take a slide= that is not shorter than range=, or leave flush= out"),
    Rule("flush", ("init",),
         "flush= keeps the cells of a window while it emits others, and the states of an aggregate "
         "by init/incr/final do not combine into them",
         "define it by lift/combine/lower, or leave flush= out"),
    Rule("flush", ("no groups",),
         "flush= spreads groups, and there is no group_by(...)",
         "add group_by(...), or leave flush= out"),
    Rule("flush", ("ordered join",),
         "flush= and order='time' contradict each other: results in order could be emitted only "
         "after the last one that waits",
         "leave one of them out"),
    # -- watermarks
    Rule("since", ("landmark", "named", *NUMBERED, *DRIVEN, "both times"),
         f"{_SINCE}, and these windows can only close in the order of time",
         "take a fixed range= with a decomposable aggregate, or punctuation without since="),
    Rule("since", ("init",),
         f"{_SINCE}, which needs panes, and an aggregate by init/incr/final is kept per window",
         "define it by lift/combine/lower, or take punctuation without since="),
    Rule("since", ("flush",),
         "flush= emits windows in the order of time, and a punctuation with since= completes an "
         "interval before earlier ones",
         "leave flush= out, or take punctuation without since="),
    Rule("since", ("distinct", "distinct within", "order", "join", "outer join", "ordered join"),
         f"{_SINCE}, and this operator evicts rows in the order of time",
         "put windows directly over the stream, or take punctuation without since="),
    Rule("since", ("second level", "order over results"),
         f"{_SINCE}, and results of windows progress in the order of time",
         "write the results to a sink and read them in a query of its own, or take punctuation "
         "without since="),
    Rule("consistent", ("landmark",),
         "slack(mode='consistent') keeps a late row out of all its windows, and no row is late for "
         "all landmark windows",
         "take mode='generous'"),
    *(
        Rule(feature, ("landmark", *NUMBERED, *DRIVEN),
             "the target needs windows of a fixed range and slide over the stream's time: the rows "
             "that other windows lose are not known",
             "give the stream lw.slack(...) or lw.adaptive()")
        for feature in ("quality share", "quality error")
    ),
    Rule("quality error", ("join", "outer join", "ordered join", "both times"),
         "an error bounds the values of windows; a join has only a share of its pairs",
         "take quality(0.95)"),
    Rule("quality error", ("named", "flush", "allowed_lateness"),
         "the values of these windows are not compared with what their late rows add",
         "take windows of one range without flush= and allowed_lateness=, or quality(0.95)"),
    *(
        Rule(feature, ("rows",),
             "the stream feeds neither windows nor a join, so no result could be incomplete",
             "give it lw.slack(...) or lw.adaptive()")
        for feature in ("quality share", "quality error")
    ),
    # -- early results
    *(
        Rule(feature, (*NUMBERED, *DRIVEN, "rows", "order over results"),
             "it counts in slides, but the windows of this query have no fixed slide",
             'write lw.early_every("10 seconds") or lw.early_on_demand()')
        for feature in ("early_before", "early accuracy")
    ),
    # -- needs
    Rule("need", ("rows", "order over results"),
         "it counts from the ends of windows, and the query does not end with windows",
         "end it with window(...).agg(...), or leave need= out"),
    Rule("need", (*NUMBERED, *DRIVEN),
         "it counts from the ends of windows, which are unknown here before rows arrive",
         "take a fixed range and slide, or set watermark= and early= instead"),
    Rule("need", ("both times",),
         "it counts from one end of a window, and windows on two times have two",
         "name one time in on=, or leave need= out"),
    Rule("need", ("flush",),
         "flush= emits finals later than their windows close",
         "leave one of the two out"),
    # -- sidelining
    *(
        Rule("sideline", labels, f"here {reason}", "leave sideline= out")
        for labels, reason in (
            (("rows",), "there are rows without windows"),
            (("distinct", "distinct within"), "distinct() comes before the windows"),
            (("order",), "order() comes before the windows"),
            (("join", "outer join", "ordered join"), "a join comes before the windows"),
            (("named",), "several windows of lw.windows(...) share panes"),
            (NUMBERED, "windows lie over row numbers"),
            (("landmark",), "the windows are landmark windows"),
            (("row", "slide_on"), "the windows end at rows"),
            (("session",), "the windows are sessions"),
            (("init",), "an aggregate by init/incr/final has its state per window"),
            (("flush",), "flush= emits results gradually"),
            (("both times",), "windows lie on two times"),
            (("by", "per_source"), "sources close their own groups"),
            (("allowed_lateness",), "allowed_lateness= keeps closed windows for late rows"),
        )
    ),
    Rule("sideline", ("since",),
         "it decides itself which intervals of time are complete, and so does "
         "lw.punctuated(since=...)",
         "leave one of the two out"),
    # -- shedding
    Rule("shed", ("rows", "order over results"),
         "the query does not end with windows",
         "end it with window(...).agg(...), or leave shed= out"),
    Rule("shed", ("outer join",),
         "a join that keeps rows without a partner would emit the partners of dropped rows alone, "
         "which is wrong",
         "take how='inner', or shed before the join, in a query of its own"),
    Rule("shed", ("distinct within",),
         "distinct(within=...) emits a row if no equal row came near it, and that row may have "
         "been dropped",
         "take distinct() of equal times, or apply it after the windows"),
    Rule("shed", NUMBERED,
         "windows count rows, so each would hold other rows if some were dropped",
         "take windows over time"),
    Rule("shed", ("landmark", *DRIVEN),
         "rows determine where these windows lie, or they have no end",
         "take a fixed range and slide"),
    Rule("shed", ("flush",), "flush= emits results later than windows close", "leave flush= out"),
    Rule("shed", ("both times",), "windows lie on two times", "take windows on one time"),
    Rule("shed", ("allowed_lateness",),
         "with allowed_lateness= a late row may reach a window after the log has forgotten that it "
         "was dropped",
         "leave one of the two out"),
    Rule("shed", ("since",),
         "lw.punctuated(since=...) closes windows before earlier ones",
         "take watermarks without since="),
    Rule("shed", ("sideline",),
         "sideline= holds rows of a burst and shed= drops them",
         "choose one of the two"),
    Rule("fair_by", ("distinct", "order", "join", "ordered join"),
         "windows are dropped by the key of each row, and this operator changes which rows reach "
         "the windows",
         "group the stream itself, window(...).group_by(...).agg(...), or leave fair_by= out"),
    Rule("fair_by", ("no groups",),
         "windows are dropped for some values of the key, and there is no group_by(...)",
         "add group_by(...) with the key, or leave fair_by= out"),
    Rule("sampled", ("distinct", "order", "join", "ordered join", "second level"),
         "the rows of windows over a stream are weighted, and another operator lies between them",
         "put the windows on the stream itself, or take kind='windows'"),
    Rule("sampled", ("holistic", "sketch", "lift", "init"),
         "results are estimated from a share of the rows, and only count, sum and avg can be",
         "leave the aggregate out, or take kind='windows'"),
    Rule("sampled", ("quality error",),
         "quality(error=...) compares results with what late rows add to them, but of sampled "
         "windows only estimates are known",
         "set a share of rows, quality(0.95), or take kind='windows'"),
    # -- aggregates
    Rule("landmark", ("holistic",),
         "the aggregate keeps all values of a window, and a landmark window has the whole stream",
         "take a sketch, for example lw.quantile(..., sketch=True)"),
    Rule("landmark", ("second level",),
         "at the end of a stream, landmark windows are emitted up to its last row, and the last "
         "row of an operator's results is not known in advance",
         "take a range"),
)  # fmt: skip
"""All rules. A new feature adds its rules here and nowhere else."""


def rule_for(feature: str, labels: Collection[str]) -> Rule | None:
    """Return the first rule that refuses `feature` for queries with `labels`, or None."""
    rules = (rule for rule in RULES if rule.feature == feature)
    return next((rule for rule in rules if not set(rule.labels).isdisjoint(labels)), None)


KINDS = {"shed fill": "shed", "fair_by": "shed", "sampled": "shed"}
"""Features that are a kind of another one, whose rules apply to them as well."""


def rule_of(feature: str, labels: Collection[str]) -> Rule | None:
    """Return the first rule that refuses `feature`, or what it is a kind of, or None."""
    own = rule_for(feature, labels)
    return rule_for(KINDS[feature], labels) or own if feature in KINDS else own


def features_of(labels: Collection[str]) -> Iterator[tuple[str, Rule | None]]:
    """Yield each feature with the rule that refuses it for a query with `labels`, or with None."""
    for feature in FEATURES:
        yield feature, rule_of(feature, labels)


def refuse(feature: str, labels: Collection[str], written: str) -> None:
    """Raise SpecError if a rule refuses `feature` for `labels`; the error quotes `written`."""
    rule = rule_for(feature, labels)
    if rule is not None:
        raise SpecError(rule.text(written))
