"""Mutants: patches that put known faults back, each of which the schedules must find.

The first line of a patch describes the fault.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.spark_schedule import FAULTS

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_SEED = re.compile(r"--seed (\d+)")


@dataclass(frozen=True)
class Mutant:
    """A patch of the library that puts a known fault back."""

    patch: Path

    @property
    def name(self) -> str:
        """The name of the patch."""
        return self.patch.stem

    @property
    def fault(self) -> str:
        """The fault that the patch puts back."""
        return self.patch.read_text("utf-8").splitlines()[0]

    def apply(self, folder: Path, *, check: bool = False) -> None:
        """Apply the patch to a copy of the tree; with `check`, only try."""
        words = ["git", "apply", *(["--check"] if check else []), str(self.patch)]
        # Git must not look for a repository: it would skip files that lie outside of it.
        ceiling = {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
        subprocess.run(  # noqa: S603
            words, cwd=folder, check=True, capture_output=True, env={**os.environ, **ceiling}
        )


def mutants(names: Sequence[str] = ()) -> list[Mutant]:
    """Return the mutants with these names; all without names."""
    patches = sorted(_HERE.glob("*.patch"))
    return [Mutant(patch) for patch in patches if not names or patch.stem in names]


def find_mutants(schedules: int, processes: int, names: Sequence[str]) -> int:
    """Run the schedules against each mutant; return 1 if a mutant was not found."""
    missed = 0
    for mutant in mutants(names):
        needed = _find(mutant, schedules, processes)
        missed += needed is None
        verdict = "NOT FOUND" if needed is None else f"found by schedule {needed}"
        sys.stdout.write(f"{mutant.name:<40} {verdict:<24} {mutant.fault}\n")
        sys.stdout.flush()
    return 1 if missed else 0


def _find(mutant: Mutant, schedules: int, processes: int) -> int | None:
    """Return the number of schedules that find a mutant; None if none of them does."""
    with tempfile.TemporaryDirectory(prefix="lowwater-mutant-") as folder:
        copy_tree(Path(folder))
        mutant.apply(Path(folder))
        part = ["local", "--schedules", str(schedules), "--processes", str(processes)]
        if mutant.name.startswith("spark-"):  # each fault once while tasks run, once after an epoch
            each_once = str(2 * len(FAULTS))
            part = ["spark", "--points", "segment", "appended", "--schedules", each_once]
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "chaos", *part, "--until-wrong"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([f"{folder}/src", folder])},
            capture_output=True,
            text=True,
            check=False,
        )
    seeds = _SEED.findall(done.stdout)
    if done.returncode and not seeds:
        raise RuntimeError(f"{mutant.name}: the harness failed: {done.stderr[-2_000:]}")
    return int(seeds[-1]) + 1 if seeds else None


def copy_tree(folder: Path) -> None:
    """Copy the library and the harness into `folder`."""
    for part in ("src", "chaos"):
        shutil.copytree(_ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
