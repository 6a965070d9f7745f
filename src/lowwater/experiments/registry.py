"""Which experiments there are: every module here whose name is a letter and a number."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module

import lowwater.experiments as package
from lowwater.errors import SpecError
from lowwater.experiments.contract import Experiment

_NAME = re.compile(r"[a-z][0-9]+")


def experiments() -> dict[str, Experiment]:
    """Return all experiments by id, in order."""
    names = [m.name for m in pkgutil.iter_modules(package.__path__) if _NAME.fullmatch(m.name)]
    found = [_load(name) for name in names]
    return {e.id: e for e in sorted(found, key=lambda e: in_order(e.id))}


def in_order(id: str) -> tuple[str, int]:
    """Return what ids are sorted by, so that W10 comes after W9."""
    return id[0], int(id[1:])


def find(ids: Iterable[str]) -> list[Experiment]:
    """Return the experiments of some ids, or all if none is named.

    >>> [e.id for e in find(["w2", "W1"])]
    ['W2', 'W1']
    """
    known = experiments()
    wanted = list(dict.fromkeys(i.upper() for i in ids)) or list(known)
    for id in wanted:
        if id not in known:
            close = get_close_matches(id, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise SpecError(f"there is no experiment {id!r}; there are: {', '.join(known)}.{hint}")
    return [known[id] for id in wanted]


def _load(name: str) -> Experiment:
    module = import_module(f"{package.__name__}.{name}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
