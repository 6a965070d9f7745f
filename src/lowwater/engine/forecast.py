"""The contexts of an epoch's blocks under consistent slack."""

from __future__ import annotations

from lowwater.control.context import EpochContext
from lowwater.control.measures import InputMeasure
from lowwater.engine.controller import Controller
from lowwater.engine.entry import Entry


class Forecast:
    """The contexts of an epoch's blocks, as if each block were an epoch of its own."""

    def __init__(self, controller: Controller, before: Entry) -> None:
        self.controller, self.before = controller, before
        self.entries: dict[int, Entry] = {}

    def __call__(self, number: int, measured: InputMeasure) -> EpochContext:
        """Return the context after one more block of an input, given its measurements."""
        entry = self.entries.get(number, self.before)
        self.entries[number] = self.controller.foresee(entry, measured)
        return self.entries[number].standing
