"""One schedule on the local host, with a file store in memory and a clock of the harness."""

from __future__ import annotations

from functools import cache

from chaos.faults import Injector
from chaos.queries import ChaosQuery
from chaos.report import Report
from chaos.schedule import Schedule, schedule
from chaos.store import Killed, mount
from chaos.world import Outcome, Tables, World, hook, recorded
from lowwater.engine import state_store
from lowwater.errors import LowwaterError

_MOST_RUNS = 12


def simulate(plan: Schedule) -> Outcome:
    """Run a schedule to its end, and compare its outputs with those of an undisturbed run."""
    outcome, world = Outcome(plan), World(plan.query)
    mount(world.store)
    state_store.KEPT_EPOCHS = plan.kept_epochs
    faults = list(plan.faults)
    for _ in range(_MOST_RUNS):
        injector = Injector(world, faults.pop(0) if faults else None, outcome)
        undamaged = dict(world.store.files)
        with hook(injector.reached), recorded(world):
            ended = _live(world, outcome)
        world.store.on_write = None
        if injector.damage is not None:
            undamaged = dict(world.store.files)
            injector.damage()
            if not _refused(world, outcome):
                continue
            world.store.files = undamaged  # a backup of the moment before the damage
        elif ended and not faults:
            break
    expected = calm(plan.query)
    found = world.outputs()
    if found != expected:
        outcome.wrong = _difference(found, expected)
    return outcome


def _live(world: World, outcome: Outcome) -> bool:
    """Run the query until it ends, fails or is killed; return whether it has ended."""
    try:
        world.run().finish()
    except Killed:
        return False
    except LowwaterError as error:
        outcome.errors.append(str(error))
        return False
    return True


def _refused(world: World, outcome: Outcome) -> bool:
    """Start the query after damage; return whether it was refused before or during its run."""
    try:
        with hook(None):
            world.run().finish()
    except LowwaterError as error:
        outcome.errors.append(str(error))
        return True
    return False


@cache
def calm(query: ChaosQuery) -> Tables:
    """Return the outputs of a run without faults."""
    world = World(query)
    mount(world.store)
    with hook(None):
        world.run().finish()
    return world.outputs()


def _difference(found: Tables, expected: Tables) -> str:
    for path in sorted({*found, *expected}):
        if found.get(path) != expected.get(path):
            return f"{path} is {found.get(path)}, not {expected.get(path)}"[:2_000]
    return ""


def run_chunk(seeds: range) -> Report:
    """Return the report of the schedules with these seeds."""
    report = Report()
    for seed in seeds:
        report.add(simulate(schedule(seed)))
    return report
