"""Finds the experiments: every module whose name is a letter and a number."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module

import experiments as package
from experiments.harness.contract import Experiment
from lowwater.errors import SpecError

_NAME = re.compile(r"[a-z][0-9]+")


def experiments() -> dict[str, Experiment]:
    """Return all experiments by id, in order."""
    modules = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names = [m.name for m in modules if _NAME.fullmatch(m.name.rpartition(".")[2])]
    found = [_load(name) for name in names]
    return {e.id: e for e in sorted(found, key=lambda e: in_order(e.id))}


def in_order(id: str) -> tuple[str, int]:
    """Return the sort key of an id, so that W10 comes after W9."""
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
            raise SpecError(f"{id!r} is not an experiment; choose from: {', '.join(known)}.{hint}")
    return [known[id] for id in wanted]


def _load(name: str) -> Experiment:
    module = import_module(name)
    experiment: Experiment = module.EXPERIMENT
    return experiment
