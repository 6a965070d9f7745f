"""The short, fixed part of the fault harness, and its patches, which must apply."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from chaos.flips import run_flips
from chaos.mutants import copy_tree, mutants
from chaos.schedule import PAIRS, schedule
from chaos.simulate import run_chunk


def test_sixty_schedules_are_exact_or_refused():
    report = run_chunk(range(60))
    assert report.schedules == 60
    assert not report.wrong, report.text(1)
    assert report.met.total() >= 60


def test_a_hundred_flipped_bits_are_found_or_harmless():
    report = run_flips(range(100))
    assert report.places == 100
    assert not report.wrong, report.text(1)
    assert {*report.found} == {"control", "lowwater.json", "outputs", "source", "state"}


def test_a_schedule_is_known_by_its_seed_and_all_pairs_are_drawn():
    assert schedule(7) == schedule(7)
    drawn = Counter((f.point, f.kind) for n in range(5_000) for f in schedule(n).faults)
    assert {*drawn} == {*PAIRS}
    assert min(drawn.values()) >= 5


@pytest.mark.skipif(shutil.which("git") is None, reason="patches are applied by git")
def test_every_mutant_applies_to_the_tree(tmp_path):
    copy_tree(tmp_path)
    for mutant in mutants():
        mutant.apply(tmp_path, check=True)
    assert all(mutant.fault.endswith(".") for mutant in mutants())
