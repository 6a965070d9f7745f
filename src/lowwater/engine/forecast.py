"""The contexts of the blocks of an epoch, for inputs whose late rows do not depend on epochs."""

from __future__ import annotations

from dataclasses import replace

from lowwater.control.context import EpochContext
from lowwater.control.measures import InputMeasure
from lowwater.engine.controller import Controller
from lowwater.engine.entry import Entry


class Forecast:
    """A function that returns the context after each block, as if each block were an epoch."""

    def __init__(self, controller: Controller, before: Entry) -> None:
        self.controller, self.before = controller, before
        self.entries: dict[int, Entry] = {}

    def __call__(self, number: int, measured: InputMeasure) -> EpochContext:
        """Return the context after the next block of an input, given the block's measurements."""
        entry = self.entries.get(number, self.before)
        self.entries[number] = self.controller.foresee(entry, measured)
        now = self.before.standing
        context = self.entries[number].standing
        return replace(context, opened=now.opened, limits=now.limits, set_aside=now.set_aside)
