"""Timers around everything that learners of slack do, in shards and in the controller.

The library has no timers of its own: its functions are replaced by ones that measure themselves.
Only the outermost of nested calls counts. Workers of Spark start their timers in
`bench.learner_daemon`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from lowwater.control.measures import NeededSlack
from lowwater.dataflow import deliver, ingest
from lowwater.engine import controller, epoch
from lowwater.operators import row_kernel
from lowwater.operators.join.loss_count import LossCount as PairCount
from lowwater.operators.join.loss_count import OrderedLossCount
from lowwater.operators.packet import Packet
from lowwater.operators.window import epoch as window_epoch
from lowwater.operators.window.loss_count import LossCount
from lowwater.operators.window.value_ledger import ValueLedger
from lowwater.watermarks.adaptive.adapter import SlackAdapter

SHARDS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (deliver, ("_measured", "reference_packet")),
    (ingest, ("_measure_late",)),
    (row_kernel, ("newest_times",)),
    (PairCount, ("arrive", "joined", "finish", "measures")),
    (OrderedLossCount, ("count", "measures")),
    (LossCount, ("closed", "missed", "observed")),
    (ValueLedger, ("receive", "closed", "observed")),
)
"""Functions of ingest and of kernels: (module or class, names)."""
CONTROLLER: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (controller, ("newest_at_ports", "slack_references")),
    (SlackAdapter, ("advance",)),
)
"""Functions of the controller: the rule's step, the quality book, what needed slacks count from."""
CODING = ((row_kernel, "measure_packet"), (window_epoch, "measure_packet"))
"""Functions that encode measurements; those that only learners read count."""


class LearnerTimers:
    """The seconds of processor time that learners have taken, in shards and in the controller.

    `on_call` is called with the seconds of each measured call of a shard.
    """

    def __init__(self, on_call: Callable[[float], None] | None = None) -> None:
        self.shards = self.controller = 0.0
        self.on_call = on_call
        self._inside = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Replace the learners' functions by ones that measure themselves."""
        with ExitStack() as patched:
            for place, every in (("shards", SHARDS), ("controller", CONTROLLER)):
                for owner, names in every:
                    for name in names:
                        timed = self._timed(vars(owner)[name], place)
                        patched.enter_context(patch.object(owner, name, timed))
            for owner, name in CODING:
                timed = self._timed(vars(owner)[name], "shards", _is_needed_slack)
                patched.enter_context(patch.object(owner, name, timed))
            timed = self._timed(vars(epoch)["measure_of"], "controller", _has_needed_slack)
            patched.enter_context(patch.object(epoch, "measure_of", timed))
            yield

    def _timed(
        self, function: Callable[..., Any], place: str, counts: Callable[..., bool] | None = None
    ) -> Callable[..., Any]:
        """Return `function` with a timer for the calls that `counts` chooses, or for all calls."""

        @wraps(function)
        def timed(*given: Any, **more: Any) -> Any:
            if self._inside or (counts is not None and not counts(*given)):
                return function(*given, **more)
            self._inside, began = True, time.thread_time()
            try:
                done = function(*given, **more)
                return list(done) if isinstance(done, Iterator) else done
            finally:
                took = time.thread_time() - began
                self._inside = False
                setattr(self, place, getattr(self, place) + took)
                if self.on_call is not None and place == "shards":
                    self.on_call(took)

        return timed


def _is_needed_slack(_shard: int, _seq: int, measure: object) -> bool:
    return isinstance(measure, NeededSlack)


def _has_needed_slack(packet: Packet) -> bool:
    return NeededSlack.KIND.encode() in packet.payload[:20]
