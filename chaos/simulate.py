"""One schedule on the local host, with a file store in memory and a clock of the harness."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from chaos.expectation import expected_answer, found_answer
from chaos.faults import Injector
from chaos.inputs import Inputs
from chaos.queries import ChaosQuery
from chaos.report import Report
from chaos.schedule import Schedule, schedule
from chaos.store import Killed, mounted
from chaos.world import CHECKPOINT, Outcome, Tables, World, hook, instrumented
from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.record import live_entries
from lowwater.errors import HostError, LowwaterError
from lowwater.sources.taken_files import FilePosition

_MOST_RUNS = 12
_MOST_SECONDS = 120


class WrongError(Exception):
    """The verdict on a schedule: an answer is wrong, or an error does not name its cause."""


class HungError(BaseException):
    """The end of a schedule that does not end by itself; no run may notice it."""


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_MOST_SECONDS)
    try:
        yield
    except HungError as hung:
        raise WrongError(f"the schedule has not ended after {_MOST_SECONDS} seconds") from hung
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def simulate(plan: Schedule) -> Outcome:
    """Run a schedule to its end, and compare its outputs with those of an undisturbed run."""
    outcome = Outcome(plan)
    world = World.of(plan.query, plan.seed, kept_epochs=plan.kept_epochs)
    try:
        with mounted(world.store), _time_limit():
            _run_all(plan, world, outcome)
            verify(world)
    except WrongError as wrong:
        outcome.wrong = str(wrong)[:2_000]
    finally:
        world.close()
    return outcome


def _run_all(plan: Schedule, world: World, outcome: Outcome) -> None:
    """Run the query with one fault after the other, until it ends without a fault."""
    faults = list(plan.faults)
    for _ in range(_MOST_RUNS):
        fault = faults.pop(0) if faults else None
        injector, before = Injector(world, fault, outcome), len(outcome.errors)
        with hook(injector.reached), instrumented(world):
            ended = live(world, outcome.errors)
        world.store.on_operation = None
        if injector.damage is not None:
            _damage(world, injector, outcome)
        elif ended and not faults:
            return
        if fault is not None and len(outcome.errors) > before:
            outcome.named.append(fault.kind)
    raise WrongError(f"the query does not end: {outcome.errors[-1:]}")


def _damage(world: World, injector: Injector, outcome: Outcome) -> None:
    """Damage the files and start the query; if it is refused, restore the files from a backup."""
    assert injector.damage is not None  # noqa: S101
    saved = world.save()
    injector.damage()
    if not world.changed(saved):
        return
    injector.met()
    with hook(None), instrumented(world):
        ended = live(world, outcome.errors)
    if not ended:
        verify_part(world)
        world.restore(saved)


def live(world: World, errors: list[str]) -> bool:
    """Run the query until it ends, fails or is killed; return whether it has ended."""
    try:
        world.live()
    except Killed:
        return False
    except LowwaterError as error:
        cause = error.__cause__
        if type(error) is HostError and not isinstance(cause, LowwaterError | OSError | None):
            raise WrongError(f"the error does not name its cause: {error}") from error
        errors.append(str(error))
        return False
    except Exception as error:
        raise WrongError(f"the error does not name its cause: {error!r}") from error
    return True


# -- verdicts --------------------------------------------------------------------------------------


def verify(world: World) -> None:
    """Raise WrongError unless all outputs can be read and are as expected."""
    try:
        _verify(world)
    except WrongError:
        raise
    except Exception as error:
        raise WrongError(f"the outputs cannot be read: {error!r}") from error


def _verify(world: World) -> None:
    if world.inputs is not None:
        _verify_answer(world, world.inputs)
        return
    assert isinstance(world.query, ChaosQuery)  # noqa: S101
    expected, found = calm(world.query), world.outputs()
    if found != expected:
        raise WrongError(_difference(found, expected))


def verify_part(world: World) -> None:
    """Raise WrongError if a run that was refused has emitted other rows than an undisturbed one."""
    if isinstance(world.query, ChaosQuery):
        expected, found = calm(world.query), world.outputs()
        if not found.items() <= expected.items():
            part = {path: rows for path, rows in expected.items() if path in found}
            raise WrongError(f"before the error, {_difference(found, part)}")


def _verify_answer(world: World, inputs: Inputs) -> None:
    epochs, reported = [], []
    for position in _positions():
        epochs.append([(file.name, file.size) for file in position.files])
        reported += [report.name for report in position.reports]
    taken = [name for files in epochs for name, _ in files]
    if unread := sorted({*inputs.names()} - {*taken, *reported}):
        raise WrongError(f"never read: {unread}")
    difference = found_answer(world.rows()).difference(expected_answer(inputs, epochs, reported))
    if difference is not None:
        raise WrongError(difference)


def _positions() -> Iterator[FilePosition]:
    """Yield the position of each epoch; an epoch without files has an empty one."""
    checkpoint = Checkpoint.at(f"chaos://{CHECKPOINT}")
    stored = checkpoint.stored()
    assert stored is not None  # noqa: S101
    before = None
    for entry in reversed([*live_entries(checkpoint.log(stored.id).records())]):
        if entry.positions is None:
            continue
        at = entry.positions.inputs[0]
        yield FilePosition() if at == before else FilePosition.from_json(at)
        before = at


@cache
def calm(query: ChaosQuery) -> Tables:
    """Return the outputs of a run without faults."""
    world = World.of(query)
    with mounted(world.store), hook(None), instrumented(world):
        world.live()
    return world.outputs()


def _difference(found: Tables, expected: Tables) -> str:
    for path in sorted({*found, *expected}):
        if found.get(path) != expected.get(path):
            return f"{path} is {found.get(path)}, not {expected.get(path)}"
    return ""


def run_chunk(seeds: range) -> Report:
    """Return the report of the schedules with these seeds."""
    report = Report()
    for seed in seeds:
        report.add(simulate(schedule(seed)))
    return report
