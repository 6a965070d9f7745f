"""One schedule on Spark, with real processes and files."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from chaos.queries import FILES
from chaos.schedule import Fault
from chaos.spark_faults import strike
from chaos.spark_processes import Driver, Pool, Reply
from chaos.spark_schedule import ANY_MOMENT, DAMAGE, DEADLY, HARMLESS, KILLS, SparkSchedule

_RUN_SECONDS = 150.0
_DEATH_SECONDS = 10.0
_OTHER = {"ours": "plain", "plain": "ours", "cluster": "plain"}
_SIGNALS_OF_SLEEPERS = ("asleep", "go", "written")

Rows = dict[str, list[str]]
"""The sorted rows of each output, as text."""


@dataclass
class SparkOutcome:
    """The end of a schedule: errors, faults that happened, seconds, and what is wrong, if any."""

    schedule: SparkSchedule
    folder: Path
    errors: list[str] = field(default_factory=list)
    met: list[tuple[str, str]] = field(default_factory=list)
    wrong: str | None = None
    seconds: float = 0.0


class Simulation:
    """The schedules of one pool of drivers; the undisturbed rows of each query are known."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._calm: dict[str, Rows] = {}

    def calm(self, query: str) -> Rows:
        """Return the rows of a run without faults."""
        if query not in self._calm:
            with self._folder() as folder:
                reply = self._run("plain", query, Path(folder))
                if not reply.ended:
                    raise RuntimeError(f"the undisturbed run has failed: {reply}")
                self._calm[query] = _rows(Path(folder))
        return self._calm[query]

    def simulate(self, plan: SparkSchedule) -> SparkOutcome:
        """Run a schedule to its end, and compare its outputs with those of an undisturbed run."""
        expected, began = self.calm(plan.query), time.monotonic()
        with self._folder() as folder:
            outcome, session = SparkOutcome(plan, Path(folder)), plan.session
            for fault in plan.faults:
                session = self._disturbed(session, fault, outcome)
            self._finish(session, outcome)
            found = _rows(outcome.folder)
        if outcome.wrong is None and found != expected:
            outcome.wrong = _difference(found, expected)
        outcome.seconds = time.monotonic() - began
        return outcome

    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        """Return a folder for one run; late tasks of killed runs may still write while it goes."""
        return tempfile.TemporaryDirectory(dir=self.pool.folder, ignore_cleanup_errors=True)

    # -- runs --------------------------------------------------------------------------------------

    def _run(self, session: str, query: str, at: Path, limit: int = 1) -> Reply:
        """Run a query without faults; a micro-batch of Spark holds `limit` files."""
        driver = self.pool.ready(session)
        driver.orders.clear()
        driver.begin(query, at, limit)
        return self._ended(driver)

    def _ended(self, driver: Driver) -> Reply:
        reply = driver.reply(_RUN_SECONDS)
        if reply is None:
            driver.kill()
            return Reply("the run hangs", named=False)
        return reply

    def _finish(self, session: str, outcome: SparkOutcome) -> None:
        """Run to the end: after all faults, a restart must not fail."""
        reply = self._run(session, outcome.schedule.query, outcome.folder)
        if not reply.ended:
            outcome.wrong = outcome.wrong or f"the restart fails: {reply}"

    def _disturbed(self, session: str, fault: Fault, outcome: SparkOutcome) -> str:
        """Run with a fault; return the session of the next run."""
        plan, at = outcome.schedule, outcome.folder
        driver = self.pool.ready(session)
        driver.orders.clear(keep=_SIGNALS_OF_SLEEPERS if fault is plan.faults[-1] else ())
        sleeps = {"sleeps": fault.nth} if plan.faults[-1].kind == "zombie attempt" else {}
        driver.orders.give(fault, driver=driver.process.pid, **sleeps)
        driver.begin(plan.query, at)
        if fault.point == ANY_MOMENT:
            self._strike_soon(driver, fault)
        elif fault.kind == "second driver":
            self._second_driver(_OTHER[session], driver, fault, outcome)
        reply = self._ended(driver)
        if fault.kind in KILLS and driver.orders.given("met"):
            driver.wait_for_death(_DEATH_SECONDS)  # or the next run would begin on it
        if driver.orders.given("met"):
            outcome.met.append((fault.point, fault.kind))
        _judge(reply, fault, outcome)
        if fault.kind == "halt":
            _copy(at, "backup")
        if fault.kind in DAMAGE and driver.orders.given("met"):
            self._damaged(session, fault, outcome)
        if driver.is_alive:
            return session
        self.pool.start(session)
        return _OTHER[session]

    def _strike_soon(self, driver: Driver, fault: Fault) -> None:
        time.sleep(random.Random(fault.seed).uniform(0.0, 4.0))  # noqa: S311
        driver.orders.signal("met")
        strike(fault.kind, driver.process.pid, fault.seed)

    def _second_driver(
        self, session: str, driver: Driver, fault: Fault, outcome: SparkOutcome
    ) -> None:
        """Let the driver of `session` run while the first one sleeps at its point."""
        if not driver.orders.wait("paused", _RUN_SECONDS / 3):
            return
        driver.freeze()
        other = self.pool.ready(session)
        other.orders.clear()
        chosen = random.Random(fault.seed)  # noqa: S311
        halt = Fault("appended", chosen.randrange(3), "halt", 0)
        if chosen.random() < 0.5:  # noqa: PLR2004
            other.orders.give(halt, driver=other.process.pid)
        other.begin(outcome.schedule.query, outcome.folder)
        _judge(self._ended(other), halt, outcome)
        driver.orders.signal("go")
        driver.thaw()

    # -- damage ------------------------------------------------------------------------------------

    def _damaged(self, session: str, fault: Fault, outcome: SparkOutcome) -> None:
        """Damage the checkpoint and run; if that is refused, the undamaged one comes back."""
        at = outcome.folder
        copy = _copy(at, "undamaged")
        damage(fault.kind, at, random.Random(fault.seed))  # noqa: S311
        # A first micro-batch that holds all files is not the one that was read.
        limit = FILES if fault.kind == "lost offsets" else 1
        reply = self._run(session, outcome.schedule.query, at, limit)
        _judge(reply, fault, outcome)
        if not reply.ended:
            shutil.rmtree(at / "checkpoint", ignore_errors=True)
            shutil.copytree(copy, at / "checkpoint")


def damage(kind: str, at: Path, chosen: random.Random) -> None:
    """Damage the checkpoint in folder `at`."""
    DAMAGES[kind](at / "checkpoint", chosen)


def _lose_offsets(checkpoint: Path, _: random.Random) -> None:
    shutil.rmtree(checkpoint / "spark", ignore_errors=True)


def _lose_batch(checkpoint: Path, chosen: random.Random) -> None:
    part = chosen.choice(("offsets", "commits", "sources/0"))
    files = [p for p in checkpoint.glob(f"spark/*/{part}/*") if p.name.isdigit()]
    newest = max((int(path.name) for path in files), default=None)
    for path in files:
        if int(path.name) == newest:
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _lose_segment(checkpoint: Path, _: random.Random) -> None:
    for path in sorted(checkpoint.glob("state/*/*/*"), key=lambda p: p.name)[-1:]:
        path.unlink()


def _lose_records(checkpoint: Path, chosen: random.Random) -> None:
    for path in sorted((checkpoint / "control").glob("*"))[-chosen.choice((1, 2, 5)) :]:
        path.unlink()


def _flip_bit(checkpoint: Path, chosen: random.Random) -> None:
    visible = [p for p in checkpoint.rglob("[!.]*") if p.is_file() and p.stat().st_size]
    path = chosen.choice(sorted(visible))
    content = bytearray(path.read_bytes())
    bit = chosen.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def _restore_backup(checkpoint: Path, _: random.Random) -> None:
    shutil.rmtree(checkpoint)
    shutil.copytree(checkpoint.with_name("backup"), checkpoint)


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "lost offsets": _lose_offsets,
    "lost batch": _lose_batch,
    "lost segment": _lose_segment,
    "lost records": _lose_records,
    "flipped bit": _flip_bit,
    "old backup": _restore_backup,
}


def _copy(at: Path, name: str) -> Path:
    shutil.rmtree(at / name, ignore_errors=True)
    with suppress(FileNotFoundError):
        shutil.copytree(at / "checkpoint", at / name)
    return at / name


# -- verdicts --------------------------------------------------------------------------------------


def _judge(reply: Reply, fault: Fault, outcome: SparkOutcome) -> None:
    """Note the error of a run, and what is wrong with it."""
    if reply.ended or reply.halted:
        return
    if reply.died:
        problem = None if fault.kind in DEADLY else "the driver process ended"
    else:
        outcome.errors.append(reply.text)
        vague = not reply.named or "\n" in reply.text or "error occurred while" in reply.text
        problem = f"the error names nothing: {reply.text}" if vague else None
        if fault.kind in HARMLESS:
            problem = f"the query ended: {reply.text}"
    outcome.wrong = outcome.wrong or problem


def _rows(at: Path) -> Rows:
    tables = {}
    for name in ("results", "late"):
        files = sorted((at / name).glob("*.parquet"))
        rows = (repr(row) for path in files for row in pq.read_table(path).to_pylist())
        tables[name] = sorted(rows)
    return tables


def _difference(found: Rows, expected: Rows) -> str:
    texts = []
    for name, rows in expected.items():
        more, fewer = (set(a) - set(b) for a, b in ((found[name], rows), (rows, found[name])))
        texts.append(
            f"{name}: {len(found[name])} rows, not {len(rows)}; unexpected {sorted(more)[:2]}; "
            f"missing {sorted(fewer)[:2]}"
        )
    return "; ".join(texts)
