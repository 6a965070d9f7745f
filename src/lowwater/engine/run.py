"""The handle of a running query: where it stands, and what it is asked for while it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from lowwater.control.prod import Prod
from lowwater.control.retune import RetuneRequest
from lowwater.dataflow.graph import Dataflow
from lowwater.engine.controller import Controller
from lowwater.engine.entry import Entry
from lowwater.engine.retune import retuning
from lowwater.engine.status import Status
from lowwater.errors import PlanError
from lowwater.planner.early import demand
from lowwater.shedding.policy import Gap
from lowwater.sinks.sink import Outputs


class Run(ABC):
    """A running query: its plan, and whether it was started with `early=`.

    What is asked of it waits in `asked` until the epoch at work ends; then its `controller` decides
    on it. `newest` is the entry of the last epoch that has ended.
    """

    flow: Dataflow
    prodded: bool
    controller: Controller
    asked: list[Prod | RetuneRequest]

    @property
    @abstractmethod
    def newest(self) -> Entry:
        """The entry of the last epoch that has ended."""

    @abstractmethod
    def status(self) -> Status:
        """Return where the query stands after its newest epoch."""

    def prod(self, *, upto: Any = None, **groups: Any) -> None:
        """Ask for early results now: of every window that has begun and is open.

        `upto` asks only for windows that end not later, `segment=6` only for one group. The rows
        leave by the sink, labelled `kind = "early"`, within two epochs; each is followed by its
        final. The query must have been started with `early=`.
        """
        if not self.prodded:
            raise PlanError(
                "the query was started without early=, so its results have no columns for what is "
                "known about early rows; start it with early=lw.early_on_demand()"
            )
        self.asked.append(demand(self.flow, upto, groups))

    @property
    def settings(self) -> Mapping[str, Any]:
        """The parameters in force that `retune` can change, by name."""
        return self.controller.tuned(self.newest.overrides).settings

    def retune(
        self,
        *,
        quality: float | None = None,
        aggressiveness: float | None = None,
        accuracy: float | None = None,
        max_gap: Gap | Mapping[str, Gap] | None = None,
    ) -> None:
        """Change parameters of the query while it runs.

        `quality` is the target of `lw.quality` or `lw.pd_controller`, `aggressiveness` and
        `accuracy` are those of `lw.early_before`, `max_gap` is that of `lw.shed`. The change takes
        effect when the running epoch ends, and the control log records it from that entry on. A
        restarted query keeps it. If the restarted query's code sets a different value than it did
        when it was retuned, the code wins.
        """
        given = {
            "quality": quality,
            "aggressiveness": aggressiveness,
            "accuracy": accuracy,
            "max_gap": max_gap,
        }
        self.asked.append(retuning(self.controller, given))

    @abstractmethod
    def watch(self, tap: Outputs) -> None:
        """Let more sinks see what leaves by the first output, from the next epoch on."""

    @abstractmethod
    def stop(self) -> None:
        """Stop after the epoch at work; the checkpoint holds all that is needed to go on."""

    @abstractmethod
    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the query to end, or for some seconds; return whether it has ended."""

    def _repr_html_(self) -> str:
        return str(notebook().view(self).html(self))

    def _ipython_display_(self) -> None:
        notebook().display(self)


def notebook() -> Any:
    """Return how notebooks show things. That stands above queries, so it is looked up."""
    return import_module("lowwater.ui.notebook")
