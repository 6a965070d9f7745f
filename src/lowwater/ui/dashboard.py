"""The live page of a run, and its metrics for Prometheus."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import pyarrow as pa

from lowwater.engine.metrics import Metric, metrics
from lowwater.engine.retune import PARAMETERS
from lowwater.engine.run import Run
from lowwater.errors import HostError, PlanError, SpecError
from lowwater.sinks.sink import Outputs, Sink, to_callback
from lowwater.ticks import ticks
from lowwater.ui.columns import QueryColumns
from lowwater.ui.history import History
from lowwater.ui.server import HOST, Channel, Server, check_token

WITHOUT_SLIDER = {"memory", "gives", "share", "weights"}
"""The settings that the page does not show."""
_POLL_SECONDS = 0.05
_LAST_SECONDS = 1.0
"""The longest time that `close` waits for open pages to receive the last epoch."""


class Dashboard:
    """The live page of a running query; `url` is its address, token included."""

    def __init__(
        self, run: Run, *, port: int, controls: bool, title: str, token: str | None = None
    ) -> None:
        self.run = run
        sheds = "max_gap" in run.settings
        self.history = History(QueryColumns(run.flow, run.prodded, controls, title, sheds))
        self.channel = Channel(self._snapshot)
        self.token = secrets.token_urlsafe(16) if token is None else token
        actions = {"/prod": self._prod, "/retune": self._retune} if controls else {}
        self.server = Server(port, self.token, self.channel, actions, self._metrics)
        self.closed = threading.Event()
        takes = self.history.take_results, self.history.take_late, self.history.take_dropped
        results, late, dropped = map(tap, takes)
        run.watch(Outputs(results, late, dropped=dropped))
        self.poller = threading.Thread(target=self._poll, daemon=True)
        for work in (self.poller, threading.Thread(target=self.server.serve_forever, daemon=True)):
            work.start()

    @property
    def url(self) -> str:
        """The address of the page, token included."""
        return f"http://{HOST}:{self.server.port}/?token={self.token}"

    def close(self) -> None:
        """Close the page; the run goes on."""
        self.closed.set()
        self.poller.join(_LAST_SECONDS)
        self.channel.close(_LAST_SECONDS)
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}">{self.url}</a>'

    def _poll(self) -> None:
        """Send the newest status and rows to the open pages, until `close` is called."""
        published, last = None, False
        # Publish once more after the close: the page should show the end of the run.
        while not last:
            last = self.closed.wait(_POLL_SECONDS)
            status = self.run.status()
            news = status.epoch, status.restarts, status.last_failure, status.failed
            if news != published and (status.epoch >= 0 or status.last_failure):
                published = news
                self.channel.publish(self.history.update(status, time.time(), self._settings()))

    def _snapshot(self) -> dict[str, Any]:
        """Return the first event that a page receives: the whole history, and the settings."""
        return {**self.history.snapshot(), "settings": self._settings()}

    def _settings(self) -> dict[str, float]:
        """Return the settings that a slider can show as {name: value}; durations are in seconds.

        A need chooses the others, so only its own have sliders.
        """
        settings = dict(self.run.settings)
        need = settings.pop("need", None) or {}
        if "fresh" in need:  # of several needs, none has a slider
            own = {"need_fresh_seconds": ticks(need["fresh"]) / 1e6}
            return own if need.get("right") is None else {**own, "need_right": need["right"]}
        for name in ("max_gap", "latency"):
            if isinstance(settings.get(name), str):
                settings[f"{name}_seconds"] = ticks(settings.pop(name)) / 1e6
        shown = {n: v for n, v in settings.items() if n not in WITHOUT_SLIDER}
        return {name: value for name, value in shown.items() if not isinstance(value, Mapping)}

    def _metrics(self) -> str:
        """Return the metrics of the run in Prometheus' text format."""
        info = Metric("info", "gauge", "The run.", 1, {"title": self.history.columns.title})
        return exposition([info, *metrics(self.run.flow, self.run.status())])

    def _prod(self, given: dict[str, Any]) -> str:
        """Request early results, and return the message for the page."""
        del given
        if self.run.status().ended:
            reason = "the streams have ended, and every window has its final result"
            raise PlanError(f"early results cannot be requested: {reason}")
        self.run.prod()
        return "Early results were requested."

    def _retune(self, given: dict[str, Any]) -> str:
        """Change settings of the query, and return the message for the page."""
        unknown = [name for name in given if name not in PARAMETERS]
        if unknown:
            known = f"settings are: {', '.join(PARAMETERS)}"
            raise SpecError(f"{unknown[0]!r} is not a setting of a running query; {known}")
        self.run.retune(**given)
        values = ", ".join(_spoken(name, value) for name, value in given.items())
        return f"From the next decision on: {values}."


def _spoken(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        value = ", ".join(f"{part} {one}" for part, one in value.items())
    return f"{name.replace('_', ' ')} {value}"


def tap(take: Callable[[pa.Table], None]) -> Sink:
    """Return a sink that passes rows to `take`; an error in `take` does not fail the query."""

    def write(epoch: int, rows: pa.Table) -> None:
        del epoch
        try:
            take(rows)
        except Exception as failure:  # noqa: BLE001
            del failure

    return to_callback(write)


def dashboard(
    run: Run,
    *,
    port: int = 0,
    controls: bool = False,
    title: str = "Lowwater",
    token: str | None = None,
) -> Dashboard:
    """Serve the live page of `run` on this machine, and return the page.

    `dashboard.url` is the address of the page; it contains the token that every request needs. With
    `controls=True` the page can request early results and change settings of the query; otherwise
    it is read-only. Prometheus reads the metrics of the run under /metrics with the token as bearer
    token. Set `token`, 16 characters or more, to keep the same token after a restart.
    """
    check_token(token)
    if not isinstance(run, Run):
        raise HostError(
            f"dashboard({run!r}) needs a running query; pass the result of query.start(...)"
        )
    return Dashboard(run, port=port, controls=controls, title=title, token=token)


_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(metrics: Iterable[Metric]) -> str:
    r"""Return metrics in the text format 0.0.4 of Prometheus.

    Each name begins with `lowwater_`; the name of a counter ends with `_total`. The help
    and the type of a name precede all samples with that name.

    >>> print(exposition([Metric("rows", "counter", "Rows.", 3, {"outcome": "late"})]))
    # HELP lowwater_rows_total Rows.
    # TYPE lowwater_rows_total counter
    lowwater_rows_total{outcome="late"} 3
    <BLANKLINE>
    """
    by_name: dict[str, list[Metric]] = {}
    for one in metrics:
        name = f"lowwater_{one.name}{'_total' if one.kind == 'counter' else ''}"
        by_name.setdefault(name, []).append(one)
    lines = []
    for name, several in by_name.items():
        lines.append(f"# HELP {name} {several[0].says.translate(_ESCAPED)}")
        lines.append(f"# TYPE {name} {several[0].kind}")
        for one in several:
            labels = ",".join(f'{n}="{v.translate(_ESCAPED)}"' for n, v in one.labels.items())
            value = one.value if isinstance(one.value, int) else repr(float(one.value))
            lines.append(f"{name}{f'{{{labels}}}' if labels else ''} {value}")
    return "".join(f"{line}\n" for line in lines)
