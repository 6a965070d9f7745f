"""Policies as text: "slack 10 seconds, consistent", "before 0.5, accuracy 0.98".

The first word names a function of the library, and the text after it is the function's argument.
Each clause after a comma is an option: its name and its value. A nested policy with options is
written in parentheses. The functions are looked up by reflection, so every policy of the library
has a text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType, ModuleType
from typing import Any

from lowwater.early.policies import ProdPolicy, early_before, early_every, early_on_demand
from lowwater.engine.restart import Restart, restart
from lowwater.errors import SpecError
from lowwater.needs.statement import Need, need
from lowwater.shedding.policy import ShedPolicy, shed
from lowwater.sidelining.policy import Sideline, sideline
from lowwater.watermarks import functions as policies
from lowwater.watermarks.policy import WatermarkPolicy

Functions = Mapping[str, Callable[..., Any]]

_FLAGS = {"consistent": ("mode", "consistent"), "generous": ("mode", "generous")}
"""Clauses that are short for an option and its value."""
_OLD_WORDS = {
    "lull": "idle timeout", "idle": "idle timeout", "track": "interval",
    "aggressive": "before", "pd": "pd controller", "p": "share",
}  # fmt: skip
"""Words of earlier versions, with the words that replaced them."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_CLAUSE = re.compile(r",(?![^(]*\))")
"""A comma outside parentheses. Commas inside parentheses separate options of a nested policy."""
_ROWS = re.compile(r"(\d+) rows?")


def watermark_of(text: str) -> WatermarkPolicy:
    """Return the watermark policy that `text` describes.

    >>> watermark_of("slack 10 seconds, consistent, idle timeout 1 minute")
    Slack(idle_timeout='1 minute', max_ahead='clock', clock=None, span='10 seconds', rows=None, \
mode='consistent')
    >>> watermark_of("per source sensor, each (slack 5 seconds, idle timeout 1 minute)").each.span
    '5 seconds'
    """
    policy: WatermarkPolicy = _parse(text, _public(policies), "--watermark")
    return policy


def early_of(text: str) -> ProdPolicy:
    """Return the policy that `text` describes for early results.

    >>> early_of("every 10 seconds"), early_of("before, accuracy 0.98")
    (EarlyEvery(period=10000000), AccuracyTarget(share=1.0, accuracy=0.98))
    """
    functions = (early_every, early_before, early_on_demand)
    by_name = {f.__name__.removeprefix("early_"): f for f in functions}
    policy: ProdPolicy = _parse(text, by_name, "--early")
    return policy


def shed_of(text: str) -> ShedPolicy:
    """Return the policy that `text` describes for dropping windows.

    >>> shed_of("latency 5 seconds, max gap 10").max_gap
    10
    """
    policy: ShedPolicy = _call(shed, text.split(","), text, "--shed")
    return policy


def need_of(text: str) -> Need:
    """Return the need that `text` describes; the names after `gives` follow each other.

    >>> need_of("fresh 30 seconds, right 0.98, gives exact right").gives
    ('exact', 'right')
    """
    clauses = [clause.strip() for clause in text.split(",")]
    options = dict(_keyword(c, need, text, {}, "--need") for c in clauses if c)
    if "gives" in options:
        options["gives"] = str(options["gives"]).split()
    if "fresh" not in options:
        raise SpecError(
            f"--need {text!r} has no fresh; write --need 'fresh 30 seconds, right 0.98'"
        )
    return need(**options)


def sideline_of(text: str) -> Sideline:
    """Return the policy that `text` describes for holding the rows of a burst.

    >>> sideline_of("every 3, max delay 1 minute")
    Sideline(every=3, max_delay=60000000, newest_first=None)
    """
    policy: Sideline = _call(sideline, text.split(","), text, "--sideline")
    return policy


def restart_of(text: str) -> Restart:
    """Return the rule that `text` describes for restarts of a failed run.

    >>> restart_of("times 5, within 1 hour")
    Restart(times=5, within=3600.0, pause=1.0)
    """
    rule: Restart = _call(restart, text.split(","), text, "--restart")
    return rule


def _public(module: ModuleType) -> Functions:
    members = inspect.getmembers(module, inspect.isfunction)
    return {n: f for n, f in members if f.__module__ == module.__name__ and n[0] != "_"}


def _parse(text: str, known: Functions, option: str) -> Any:
    head, *clauses = [part.strip() for part in _CLAUSE.split(text)]
    name = _first_name(head, known)
    if name is None:
        raise SpecError(f"{option} {text!r}: {_unknown_policy(head, known)}")
    argument = head[len(name) :].strip()
    return _call(known[name], clauses, text, option, argument=argument, known=known)


def _first_name(text: str, names: Sequence[str] | Functions) -> str | None:
    """Return the entry of `names` that `text` begins with; a space may replace an underscore."""
    return next((n for n in names if re.match(rf"{n.replace('_', '[ _]')}\b", text)), None)


def _unknown_policy(head: str, known: Functions) -> str:
    words = ", ".join(n.replace("_", " ") for n in known)
    first = (head.split() or [""])[0]
    if first in _OLD_WORDS:
        return f"{first!r} is now {_OLD_WORDS[first]!r}"
    close = get_close_matches(first, known, n=1)
    hint = f". Did you mean {close[0]!r}?" if close else ""
    return f"the first word must be one of: {words}{hint}"


def _call(
    function: Callable[..., Any],
    clauses: Sequence[str],
    text: str,
    option: str,
    *,
    argument: str = "",
    known: Functions = MappingProxyType({}),
) -> Any:
    """Return the result of `function` for `argument` and the options in `clauses`."""
    stripped = [clause.strip() for clause in clauses]
    options = dict(_keyword(c, function, text, known, option) for c in stripped if c)
    if match := _ROWS.fullmatch(argument):
        options["rows"], argument = int(match[1]), ""
    try:
        return function(*([_value(argument)] if argument else []), **options)
    except TypeError as problem:
        reason = str(problem).removeprefix(f"{function.__name__}() ")
        raise SpecError(f"{option} {text!r}: {reason}") from problem


def _keyword(
    clause: str, function: Callable[..., Any], text: str, known: Functions, option: str
) -> tuple[str, Any]:
    if clause in _FLAGS:
        return _FLAGS[clause]
    names = list(inspect.signature(function).parameters)
    name = _first_name(clause, names)
    if name is None:
        raise SpecError(f"{option} {text!r}: {_unknown_keyword(clause, names)}")
    value = clause[len(name) :].strip().removeprefix("(").removesuffix(")")
    nested = _first_name(value, known) is not None
    return name, _parse(value, known, option) if nested else _value(value)


def _unknown_keyword(clause: str, names: Sequence[str]) -> str:
    old, _, value = clause.partition(" ")
    new = _OLD_WORDS.get(old)
    if new is not None and new.replace(" ", "_") in names:
        return f"{old!r} is now {new!r}; write '{new} {value}'"
    listed = ", ".join(n.replace("_", " ") for n in names)
    return f"{clause!r} is not an option; options are: {listed}"


def _value(text: str) -> float | str:
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text
