"""Damage that is done between two runs, to the checkpoint or to the input files."""

from __future__ import annotations

import random
from collections.abc import Callable

from chaos.world import CHECKPOINT, World

_ZERO, _NINE = b"09"


def _paths(world: World, part: str) -> list[str]:
    return world.store.under(f"{CHECKPOINT}/{part}")


def _delete(world: World, paths: list[str]) -> None:
    for path in paths:
        del world.store.files[path]


def _lost_segment(world: World, _: random.Random) -> None:
    newest = sorted(_paths(world, "state"), key=lambda path: path.rpartition("/")[2])
    _delete(world, newest[-1:])


def _lost_state(world: World, _: random.Random) -> None:
    _delete(world, _paths(world, "state"))


def _lost_records(world: World, chosen: random.Random) -> None:
    _delete(world, _paths(world, "control")[-chosen.choice((1, 2, 5)) :])


def _lost_outputs(world: World, _: random.Random) -> None:
    _delete(world, _paths(world, "outputs"))


def part_of(path: str) -> str:
    """Return the part of the checkpoint that a file belongs to."""
    return path.removeprefix(f"{CHECKPOINT}/").partition("/")[0]


def flip_bit(world: World, path: str, bit: int) -> None:
    """Flip one bit of a file of the world."""
    content = bytearray(world.store.files[path])
    content[bit // 8] ^= 1 << bit % 8
    world.store.files[path] = bytes(content)


def _flipped_bit(world: World, chosen: random.Random) -> None:
    by_part: dict[str, list[str]] = {}
    for path in world.store.under(CHECKPOINT):
        if world.store.files[path]:
            by_part.setdefault(part_of(path), []).append(path)
    if by_part:
        path = chosen.choice(by_part[chosen.choice(sorted(by_part))])
        flip_bit(world, path, chosen.randrange(8 * len(world.store.files[path])))


def _changed_digit(world: World, chosen: random.Random) -> None:
    for path in _paths(world, "control")[-1:]:
        content = bytearray(world.store.files[path])
        place = chosen.choice([n for n, byte in enumerate(content) if _ZERO <= byte <= _NINE])
        content[place] = _ZERO + (content[place] - _ZERO + chosen.randrange(1, 10)) % 10
        world.store.files[path] = bytes(content)


def _swapped_files(world: World, chosen: random.Random) -> None:
    paths = _paths(world, chosen.choice(("state", "control")))
    if len(paths) > 1:
        one, other = chosen.sample(paths, 2)
        files = world.store.files
        files[one], files[other] = files[other], files[one]


def _old_backup(world: World, chosen: random.Random) -> None:
    files, inside = world.store.files, f"{CHECKPOINT}/"
    old = chosen.choice(world.backups or [dict(files)])
    _delete(world, [path for path in files if path.startswith(inside)])
    files.update({path: c for path, c in old.items() if path.startswith(inside)})


def _new_checkpoint(world: World, _: random.Random) -> None:
    _delete(world, world.store.under(CHECKPOINT))


def _removed_file(world: World, chosen: random.Random) -> None:
    if world.inputs is not None:
        world.inputs.remove(chosen.choice(world.inputs.names()))


def _changed_file(world: World, chosen: random.Random) -> None:
    if world.inputs is not None:
        world.inputs.change(chosen.choice(world.inputs.names()))


DAMAGE: dict[str, Callable[[World, random.Random], None]] = {
    "lost segment": _lost_segment,
    "lost state": _lost_state,
    "lost records": _lost_records,
    "lost outputs": _lost_outputs,
    "flipped bit": _flipped_bit,
    "changed digit": _changed_digit,
    "swapped files": _swapped_files,
    "old backup": _old_backup,
    "new checkpoint": _new_checkpoint,
    "removed file": _removed_file,
    "changed file": _changed_file,
}
"""{kind of fault: function that damages the files of a world}."""
