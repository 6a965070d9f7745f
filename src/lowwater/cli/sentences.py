"""Policies as a person says them: "slack 10 seconds, consistent", "aggressive, accuracy 0.98".

The first word is a function of the library, what follows it is its argument, and each clause
behind a comma is an option: its name and its value. So every policy the library has can be said.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from lowwater import prodding
from lowwater.errors import SpecError
from lowwater.progress import functions as progress
from lowwater.shedding import shed

Functions = Mapping[str, Callable[..., Any]]

_SAID_ALONE = {"consistent": ("mode", "consistent"), "generous": ("mode", "generous")}
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_ROWS = re.compile(r"(\d+) rows?")


def progress_of(text: str) -> Any:
    """Return the progress policy that a sentence means.

    >>> progress_of("slack 10 seconds, consistent, lull 1 minute")
    Slack(lull='1 minute', max_ahead=None, clock=None, span='10 seconds', rows=None, \
mode='consistent')
    >>> progress_of("per source sensor, each slack 5 seconds").column
    'sensor'
    """
    return _said(text, _public(progress), "progress")


def prods_of(text: str) -> Any:
    """Return the source of prods that a sentence means.

    >>> prods_of("every 10 seconds"), prods_of("aggressive, accuracy 0.98")
    (Every(period=10000000), Steered(share=1.0, accuracy=0.98))
    """
    every, aggressive, on_demand = prodding.every, prodding.aggressive, prodding.on_demand
    known = {f.__name__: f for f in (every, aggressive, on_demand)}
    return _said(text, known, "prods")


def shed_of(text: str) -> Any:
    """Return how windows are left out.

    >>> shed_of("latency 5 seconds, max gap 10").max_gap
    10
    """
    return _called(shed, text.split(","), text, "shed")


def sideline_of(text: str) -> Any:
    """Return how rows of a burst are put aside.

    >>> sideline_of("every 3, max delay 1 minute")
    Sideline(every=3, max_delay=60000000)
    """
    return _called(prodding.sideline, text.split(","), text, "sideline")


def _public(module: Any) -> Functions:
    own = inspect.getmembers(module, inspect.isfunction)
    return {n: f for n, f in own if f.__module__ == module.__name__ and n[0] != "_"}


def _said(text: str, known: Functions, what: str) -> Any:
    head, *clauses = [part.strip() for part in text.split(",")]
    name = next((n for n in known if re.match(rf"{n.replace('_', '[ _]')}\b", head)), None)
    if name is None:
        words = ", ".join(n.replace("_", " ") for n in known)
        close = get_close_matches((head.split() or [""])[0], known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise SpecError(f"{what} {text!r} is none of: {words}.{hint}")
    given = head[len(name) :].strip()
    return _called(known[name], clauses, text, what, given=given, known=known)


def _called(
    function: Callable[..., Any],
    clauses: Sequence[str],
    text: str,
    what: str,
    *,
    given: str = "",
    known: Functions = MappingProxyType({}),
) -> Any:
    """Return what a function makes of its argument and its options."""
    said = [clause.strip() for clause in clauses]
    options = dict(_option(clause, function, text, known, what) for clause in said if clause)
    if match := _ROWS.fullmatch(given):
        options["rows"], given = int(match[1]), ""
    try:
        return function(*([_value(given)] if given else []), **options)
    except TypeError as wrong:
        why = str(wrong).replace(f"{function.__name__}()", "it", 1)
        raise SpecError(f"{what} {text!r}: {why}") from wrong


def _option(
    clause: str, function: Callable[..., Any], text: str, known: Functions, what: str
) -> tuple[str, Any]:
    if clause in _SAID_ALONE:
        return _SAID_ALONE[clause]
    options = list(inspect.signature(function).parameters)
    name = next((n for n in options if re.match(rf"{n.replace('_', '[ _]')}\b", clause)), None)
    if name is None:
        named = ", ".join(n.replace("_", " ") for n in options)
        raise SpecError(f"{what} {text!r}: {clause!r} is no option of it; these are: {named}")
    given = clause[len(name) :].strip()
    nested = any(re.match(rf"{n.replace('_', '[ _]')}\b", given) for n in known)
    return name, _said(given, known, what) if nested else _value(given)


def _value(text: str) -> Any:
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text
