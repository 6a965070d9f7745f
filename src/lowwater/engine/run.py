"""The handle of a running query: its status, and requests to the query while it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from lowwater.engine.entry import Entry
from lowwater.engine.epoch_loop import EpochLoop
from lowwater.engine.failure import failure_of
from lowwater.engine.retune import retuning
from lowwater.engine.status import Status
from lowwater.errors import PlanError
from lowwater.needs.statement import Need
from lowwater.planner.early import demand
from lowwater.shedding.policy import Gap, Gives
from lowwater.sinks.sink import Outputs
from lowwater.ticks import Duration


class Run(ABC):
    """A running query.

    `epochs` is the epoch loop, `flow` the dataflow, `writers` are the outputs by name, and
    `prodded` is True if the query was started with `early=`. Requests wait in `asked` until the
    running epoch ends; then the `controller` decides on them.
    """

    failure: Exception | None = None
    """The exception that has ended the run."""

    def __init__(self, epochs: EpochLoop) -> None:
        plan, self.epochs = epochs.epoch.plan, epochs
        self.flow, self.adapter, self.needs = plan.flow, plan.adapter, plan.needs
        self.prodded = plan.prodder is not None
        self.writers = epochs.epoch.outputs.writers
        self.controller, self.asked = epochs.epoch.controller, epochs.asked

    @property
    def newest(self) -> Entry:
        """The entry of the last epoch whose outputs are published."""
        return self.epochs.newest

    def status(self, behind: Collection[int] | None = None) -> Status:
        """Return the status after the newest epoch: counts, watermark, state, quality.

        `behind` restricts the status to the operators with these numbers.
        """
        status = Status.of(
            self.newest, self.flow, self.epochs.rate, behind, adapter=self.adapter, needs=self.needs
        )
        if self.failure is None:
            return status
        return replace(status, last_failure=failure_of(self.failure).line, failed=True)

    def prod(self, *, upto: Any = None, **groups: Any) -> None:
        """Request early results of every open window that has begun.

        `upto` selects the windows that end at this time or earlier; `segment=6` selects one group.
        The early rows reach the sink within two epochs, labelled `kind = "early"`; the final of
        each window follows later. The query must have been started with `early=`.
        """
        if not self.prodded:
            raise PlanError(
                "prod(): the query was started without early=, so its results lack the columns of "
                "early rows; start it with early=lw.early_on_demand()"
            )
        self.asked.append(demand(self.flow, upto, groups))

    @property
    def settings(self) -> Mapping[str, Any]:
        """The values in force of the parameters that `retune` can change, by name."""
        return self.controller.tuned(self.newest.overrides).settings

    def retune(
        self,
        *,
        quality: float | None = None,
        aggressiveness: float | None = None,
        accuracy: float | None = None,
        max_gap: Gap | Mapping[str, Gap] | None = None,
        need: Need | Mapping[str, Any] | None = None,
        latency: Duration | None = None,
        memory: str | int | None = None,
        gives: Gives | None = None,
        share: float | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """Change parameters of the query while it runs.

        `quality` is the target of `lw.quality` or `lw.pd_controller`, `aggressiveness` and
        `accuracy` are parameters of `lw.early_before`; `max_gap`, `latency`, `memory`, `gives`,
        `share` and `weights` of `lw.shed`.
        `need` is another need, or some of its arguments, such as {"fresh": "1 minute"}; for several
        queries, by the name of the query.

        The change takes effect when the running epoch ends. The control log records it, so a
        restarted query keeps it. But if the value in the query's code was edited after the retune,
        the restarted query uses the value in the code.
        """
        given = {
            "quality": quality,
            "aggressiveness": aggressiveness,
            "accuracy": accuracy,
            "max_gap": max_gap,
            "need": need,
            "latency": latency,
            "memory": memory,
            "gives": gives,
            "share": share,
            "weights": weights,
        }
        self.asked.append(retuning(self.controller, given))

    def watch(self, tap: Outputs) -> None:
        """Write the rows of the first output also to the sinks of `tap`, from the next epoch on."""
        self.epochs.epoch.outputs.watch(tap)

    @abstractmethod
    def stop(self) -> None:
        """Stop after the running epoch; `start` with the same checkpoint continues the query."""

    @abstractmethod
    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the query ends, at most `seconds`; return whether the query has ended."""

    def _repr_html_(self) -> str:
        return str(notebook().view(self).html(self))

    def _ipython_display_(self) -> None:
        notebook().display(self)


def notebook() -> Any:
    """Return the notebook module, imported late because the engine must not depend on it."""
    return import_module("lowwater.ui.notebook")
