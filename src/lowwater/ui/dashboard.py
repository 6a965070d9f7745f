"""The live page of a run: started beside it, and gone with it."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

import pyarrow as pa

from lowwater.durations import ticks
from lowwater.errors import HostError, PlanError, SpecError
from lowwater.query import Outputs, Run
from lowwater.query.figures import Figure, figures
from lowwater.query.retuning import PARAMETERS
from lowwater.sinks import callback
from lowwater.ui.describing import Described
from lowwater.ui.exposition import exposition
from lowwater.ui.history import History
from lowwater.ui.serving import HOST, Channel, Server, check_token

_LOOK_SECONDS = 0.05
_LAST_SECONDS = 1.0
"""How long open pages have to hear of the last epoch when theirs is closed."""


class Dashboard:
    """A page about a running query; `url` is where it is, token included."""

    def __init__(
        self, run: Run, *, port: int, controls: bool, title: str, token: str | None = None
    ) -> None:
        self.run = run
        sheds = "max_gap" in run.settings
        self.history = History(Described(run.flow, run.prodded, controls, title, sheds))
        self.channel = Channel(self._whole)
        self.token = secrets.token_urlsafe(16) if token is None else token
        actions = self._actions(controls=controls)
        self.server = Server(port, self.token, self.channel, actions, self._metrics)
        self.closed = threading.Event()
        results, late, shed = (
            tap(take)
            for take in (self.history.take_results, self.history.take_late, self.history.take_shed)
        )
        run.watch(Outputs(results, late, shed=shed))
        self.looking = threading.Thread(target=self._look, daemon=True)
        for work in (self.looking, threading.Thread(target=self.server.serve_forever, daemon=True)):
            work.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server.port}/?token={self.token}"

    def close(self) -> None:
        """Close the page; the run goes on."""
        self.closed.set()
        self.looking.join(_LAST_SECONDS)
        self.channel.close(_LAST_SECONDS)
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}">{self.url}</a>'

    def _look(self) -> None:
        """Tell the pages of every epoch."""
        seen, last = None, False
        # Once more after the close: the page should show how the run ended.
        while not last:
            last = self.closed.wait(_LOOK_SECONDS)
            status = self.run.status()
            if status.epoch != seen and status.epoch >= 0:
                seen = status.epoch
                self.channel.publish(self.history.note(status, time.time(), self._settings()))

    def _whole(self) -> dict[str, Any]:
        """Return all that a page which has just been opened needs to know."""
        return {**self.history.whole(), "settings": self._settings()}

    def _settings(self) -> dict[str, float]:
        """Return the parameters in force that a slider can show: numbers, a gap also in seconds."""
        told = dict(self.run.settings)
        if isinstance(told.get("max_gap"), str):
            told["max_gap_seconds"] = ticks(told.pop("max_gap")) / 1e6
        return {name: value for name, value in told.items() if not isinstance(value, Mapping)}

    def _actions(self, *, controls: bool) -> dict[str, Callable[[dict[str, Any]], str]]:
        return {"/prod": self._prod, "/retune": self._retune} if controls else {}

    def _metrics(self) -> str:
        """Return the figures of the run as Prometheus reads them."""
        info = Figure("info", "gauge", "The run.", 1, {"title": self.history.described.title})
        return exposition([info, *figures(self.run.flow, self.run.status())])

    def _prod(self, given: dict[str, Any]) -> str:
        """Ask for early results now."""
        del given
        if self.run.status().ended:
            raise PlanError("the streams have ended; all windows have their final results")
        self.run.prod()
        return "Early results were asked for."

    def _retune(self, given: dict[str, Any]) -> str:
        """Change parameters of the query."""
        unknown = [name for name in given if name not in PARAMETERS]
        if unknown:
            raise SpecError(f"{unknown[0]!r} is no parameter; there are: {', '.join(PARAMETERS)}")
        self.run.retune(**given)
        told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in given.items())
        return f"From the next decision on: {told}."


def tap(take: Callable[[pa.Table], None]) -> Any:
    """Return a sink that sees rows; whatever is wrong with the page, the query goes on."""

    def write(epoch: int, rows: pa.Table) -> None:
        del epoch
        try:
            take(rows)
        except Exception as failure:  # noqa: BLE001
            del failure

    return callback(write)


def dashboard(
    run: Run,
    *,
    port: int = 0,
    controls: bool = False,
    title: str = "Lowwater",
    token: str | None = None,
) -> Dashboard:
    """Serve a live page about a running query, on this machine only; return it.

    `dashboard.url` has the token without which nothing is shown. With `controls=True` the page can
    ask for early results and change parameters of the query; else it is for reading only.
    Prometheus finds the figures of the run under /metrics, with the token as its credentials;
    `token` is then one of your own, of 16 characters or more.
    """
    check_token(token)
    if not isinstance(run, Run):
        raise HostError(f"{run!r} is no running query; give what query.start(...) returned")
    return Dashboard(run, port=port, controls=controls, title=title, token=token)
