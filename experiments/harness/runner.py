"""Runs experiments one after the other and prints their outcomes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from experiments.harness.contract import Check, Experiment, format_value
from experiments.harness.record import Record
from lowwater.errors import LowwaterError


def run_all(
    chosen: Sequence[Experiment], *, quick: bool, folder: Path, console: Console
) -> list[Record]:
    """Run experiments, show and save each as soon as it is done."""
    if find_spec("matplotlib") is None:
        raise LowwaterError(
            "the experiments draw with matplotlib; install it with: pip install 'lowwater[demo]'"
        )
    return [run_one(e, quick=quick, folder=folder, console=console) for e in chosen]


def run_one(asked: Experiment, *, quick: bool, folder: Path, console: Console) -> Record:
    """Run an experiment, show and save it."""
    console.print(Text.assemble((f"{asked.id}  {asked.title}", "bold"), f"  ({asked.paper})"))
    console.print(Text(f"The paper: {asked.reports}", style="dim"))
    console.print(Text(f"Here: {asked.here}", style="dim"))
    began = time.monotonic()
    with console.status("Measuring"):
        found = asked.run(quick=quick)
    record = Record.of(asked, found, quick=quick, seconds=time.monotonic() - began)
    record.save(folder, found.figure)
    show(record, console)
    console.print(f"{folder / record.picture}, after {record.seconds:.1f} s\n", soft_wrap=True)
    return record


def show(record: Record, console: Console) -> None:
    """Print the figures, those of the paper beside ours, and the verdict on each shape."""
    console.print()
    console.print(_measured(record))
    console.print()
    console.print(_compared(record))
    console.print()
    for check in record.checks:
        console.print(_verdict(check))


def _measured(record: Record) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in record.columns:
        words = any(isinstance(row[name], str) for row in record.rows)
        table.add_column(name, justify="left" if words else "right")
    for row in record.rows:
        table.add_row(*(format_value(value) for value in row.values()))
    return table


def _compared(record: Record) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in ("", "paper", "ours"):
        table.add_column(name)
    for line in record.compared:
        table.add_row(line.what, line.paper, line.ours)
    return table


def _verdict(check: Check) -> Text:
    word = ("FAILS  ", "bold red") if check.fails else ("holds  ", "bold green")
    if not check.judged:
        word = ("printed  ", "dim")
    return Text.assemble(word, check.name, (f"  {check.figures}", "dim"))


def overview(known: Sequence[Experiment]) -> Table:
    """Return the table of all experiments."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("id", style="bold", no_wrap=True)
    for name in ("title", "paper", "what the paper reports"):
        table.add_column(name)
    for e in known:
        table.add_row(e.id, e.title, e.paper, e.reports)
    return table
