"""Mutants: patches that put known faults back, each of which the schedules must find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent


def find_mutants(schedules: int, names: Sequence[str]) -> int:
    """Run the schedules against each mutant; return 1 if a mutant was not found."""
    missed = 0
    for patch in sorted(_HERE.glob("*.patch")):
        if names and patch.stem not in names:
            continue
        began = time.monotonic()
        found, said = _find(patch, schedules)
        took = time.monotonic() - began
        verdict = "found" if found else "NOT FOUND"
        sys.stdout.write(f"{patch.stem:<32} {verdict:<10} {took:5.0f} s  {said}\n")
        sys.stdout.flush()
        missed += not found
    return 1 if missed else 0


def _find(patch: Path, schedules: int) -> tuple[bool, str]:
    """Return whether the schedules find a mutant, and the line that says how many were needed."""
    with tempfile.TemporaryDirectory(prefix="lowwater-mutant-") as folder:
        copy = Path(folder, "src")
        shutil.copytree(_ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(  # noqa: S603
            ["patch", "--quiet", "-p1", "-i", str(patch)],  # noqa: S607
            cwd=folder,
            check=True,
        )
        arguments = ["local", "--schedules", str(schedules), "--until-wrong"]
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "chaos", *arguments],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), str(_ROOT)])},
            capture_output=True,
            text=True,
            check=False,
        )
    lines = [line for line in done.stdout.splitlines() if "schedules in" in line]
    return done.returncode == 1 and bool(lines), lines[0] if lines else done.stderr[-300:]
