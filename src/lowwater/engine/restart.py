"""Restarts of a failed run by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from lowwater.engine.failure import Failure, failure_of
from lowwater.engine.run import Run
from lowwater.engine.status import Status
from lowwater.errors import HostError, LowwaterError, SpecError, TakenOverError
from lowwater.sinks.sink import Outputs
from lowwater.ticks import TICKS_PER_SECOND, Duration, ticks

SAME_FAILURES = 2
"""A failure with the same cause in the same epoch is restarted less often than this number."""


@dataclass(frozen=True)
class Restart:
    """A rule of restarts: at most `times` within a time, with a pause before each, in seconds."""

    times: int
    within: float
    pause: float

    def allows(self, failures: list[tuple[float, Failure]]) -> bool:
        """Return whether to restart after the last of `failures`, each with its time in seconds."""
        now, last = failures[-1]
        recent = [at for at, _ in failures if at > now - self.within]
        same = [f for _, f in failures if (f.epoch, f.cause) == (last.epoch, last.cause)]
        return len(recent) <= self.times and (last.epoch is None or len(same) <= SAME_FAILURES)


def restart(
    *, times: int = 3, within: Duration = "10 minutes", pause: Duration = "1 second"
) -> Restart:
    """Return a rule by which a failed run starts again: at most `times` in any time `within`.

    The run continues from its checkpoint. A failure that comes back in the same epoch with the same
    cause is not restarted a third time. A run whose checkpoint another run has taken is not
    restarted.

    >>> import lowwater as lw
    >>> lw.restart(times=5, within="1 hour")
    Restart(times=5, within=3600.0, pause=1.0)
    """
    if times < 1:
        raise SpecError(f"times={times!r} must be 1 or more; leave out restart= for no restarts")
    spans = {"within": within, "pause": pause}
    seconds = {n: ticks(value, name=n) / TICKS_PER_SECOND for n, value in spans.items()}
    for name, at_least in (("within", 0.001), ("pause", 0.0)):
        if seconds[name] < at_least:
            raise SpecError(f"{name}={spans[name]!r} is too short; write '10 minutes' or similar")
    return Restart(times, seconds["within"], seconds["pause"])


class RestartedRun(Run):
    """A run that starts again when it fails, by a rule; `begin` starts a run on the checkpoint."""

    def __init__(self, begin: Callable[[], Run], rule: Restart) -> None:
        self._begin, self._rule = begin, rule
        self._failures: list[tuple[float, Failure]] = []
        self._taps: list[Outputs] = []
        self._error: LowwaterError | None = None
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._run = begin()
        super().__init__(self._run.epochs)
        # Not a daemon: the run that it watches ends with it.
        threading.Thread(target=self._watch).start()

    def _watch(self) -> None:
        try:
            error = self._failure()
            while error is not None and self._restarted(error):
                error = self._failure()
        finally:
            self._ended.set()

    def _failure(self) -> LowwaterError | None:
        """Wait until the run ends, and return its failure; None if it ended in order."""
        try:
            self._run.wait()
        except LowwaterError as error:
            return error
        return None

    def _restarted(self, error: LowwaterError) -> bool:
        """Start the run again after `error`; return False if the rule does not allow it."""
        owned = self._run.epochs.log.owned()
        while True:
            self._failures.append((time.monotonic(), failure_of(error.__cause__ or error)))
            owned = owned and not isinstance(error, TakenOverError)
            allowed = owned and self._rule.allows(self._failures)
            if self._stopping.is_set() or not allowed:
                self._error = self._explained(error)
                return False
            self._stopping.wait(self._rule.pause)
            try:
                self._run = self._begin()
            except LowwaterError as again:
                error = again
                continue
            super().__init__(self._run.epochs)
            for tap in self._taps:
                self._run.watch(tap)
            return True

    def _explained(self, error: LowwaterError) -> LowwaterError:
        """Return `error` with the number of restarts, and how often it came back."""
        _, last = self._failures[-1]
        same = [f for _, f in self._failures if (f.epoch, f.cause) == (last.epoch, last.cause)]
        text = f"{error}. The run was restarted {len(self._failures) - 1} times"
        if last.epoch is not None and len(same) > SAME_FAILURES:
            text += f"; epoch {last.epoch} failed {len(same)} times for the same reason"
        told = HostError(text)
        told.__cause__ = error
        return told

    @property
    def restarts(self) -> int:
        """The number of restarts so far."""
        return max(0, len(self._failures) - (self._error is not None))

    def status(self, behind: Collection[int] | None = None) -> Status:
        """Return the status after the newest epoch, with the restarts and the last failure."""
        last = self._failures[-1][1].line if self._failures else ""
        failed = self._error is not None
        return replace(
            super().status(behind),
            restarts=self.restarts,
            last_failure=str(self._error) if failed else last,
            failed=failed,
        )

    def watch(self, tap: Outputs) -> None:
        """Write the rows of the first output also to the sinks of `tap`, after restarts, too."""
        self._taps.append(tap)
        self._run.watch(tap)

    def stop(self) -> None:
        """Stop after the running epoch; the run does not start again."""
        self._stopping.set()
        self._run.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the query ends, at most `seconds`; return whether the query has ended."""
        ended = self._ended.wait(seconds)
        if self._error is not None:
            raise self._error
        return ended
