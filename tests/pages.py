"""The code on the pages of the documentation: found, and run as a reader would run it.

Blocks of a page run in order, in one namespace, in a folder that holds what the tutorial makes.
What a block prints must be what the block after it shows; `...` stands for anything. A comment
before a block, `<!-- no-run: why -->`, says that it cannot run in a test: then it is only looked
at.
"""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.csv as pacsv

import lowwater as lw
from lowwater.cli import main

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
OURS = re.compile(r"^(?:\.venv/bin/)?(lowwater|python examples/\w+\.py)\b")
"""Commands that are run, or at least looked at."""
SECONDS = 60
"""How long a query that runs on has to print what the page shows."""

_FENCE = re.compile(r"^```([^`\n]*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_REASON = re.compile(r"<!-- no-run: (.+) -->\n$")


@dataclass(frozen=True)
class Block:
    """Code on a page, what it prints as the page shows it, and why it cannot run, if so."""

    page: Path
    line: int
    language: str
    code: str
    shown: str | None = None
    reason: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The lines of a block for the shell, without what is said about them."""
        lines = self.code.splitlines() if self.language == "sh" else []
        found = [shlex.join(shlex.split(line, comments=True)) for line in lines]
        return [line for line in found if line]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are code."""
    text, found, end = page.read_text(encoding="utf-8"), [], -1
    for fence in _FENCE.finditer(text):
        language, code = fence.groups()
        if language in {"", "text"} and found and fence.start() - end <= 1:
            last = found.pop()
            shown = code.rstrip()
            found.append(Block(last.page, last.line, last.language, last.code, shown, last.reason))
        elif language in {"python", "sh"}:
            said = _REASON.search(text, 0, fence.start())
            line = text.count("\n", 0, fence.start()) + 1
            found.append(Block(page, line, language, code, None, said and said.group(1)))
            end = fence.end()
    return found


def needs_spark(page: Path) -> bool:
    return any(
        re.search(r"\bspark\b|\.start\(", b.code) and b.reason is None
        for b in blocks(page)
        if b.language == "python"
    )


def prepare(folder: Path) -> None:
    """Lay out what pages read: the readings of the tutorial, also as one file, and a query."""
    execute(blocks(TUTORIAL)[0], {})
    schema = "ts timestamp, segment int, speed double"
    files = lw.stream(
        lw.files("readings", format="json", schema=schema), time="ts", progress=lw.ordered()
    )
    rows = files.run(host="local").results
    pacsv.write_csv(rows, folder / "readings.csv")
    (folder / "speeds.cql").write_text(
        "SELECT segment, max(speed) AS fastest FROM traffic [RANGE 5 minutes] GROUP BY segment"
    )


def run_page(page: Path) -> None:
    """Run the blocks of a page; stop what is still running then."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        for block in blocks(page):
            if block.reason is None:
                execute(block, namespace)
    finally:
        for value in list(namespace.values()):
            if isinstance(value, lw.Run):
                value.stop()


def execute(block: Block, namespace: dict[str, Any]) -> None:
    """Run a block, and hold what it prints against what the page shows."""
    with printing() as printed:
        if block.language == "sh":
            for command in block.commands:
                in_process(command)
        else:
            # Lines are counted as on the page, for who reads the trace.
            code = "\n" * block.line + block.code
            exec(compile(code, str(block.page), "exec"), namespace)  # noqa: S102
        if block.shown is not None:
            running = any(isinstance(v, lw.Run) for v in namespace.values())
            until = time.monotonic() + (SECONDS if running else 0)
            while not shows(block.shown, printed()) and time.monotonic() < until:
                time.sleep(0.1)
            if not shows(block.shown, printed()):
                raise AssertionError(f"{block.place} shows\n{block.shown}\nand prints\n{printed()}")


@contextlib.contextmanager
def printing() -> Iterator[Callable[[], str]]:
    """Catch what is printed; a real file, since the command writes to its descriptor."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:

        def printed() -> str:
            file.flush()
            # Its place is shared with whoever prints: reading must not move it.
            return os.pread(file.fileno(), 1 << 20, 0).decode()

        with contextlib.redirect_stdout(file):
            yield printed


def shows(shown: str, printed: str) -> bool:
    """Say whether a page shows what was printed; where it begins with `...`, the last of it."""
    wanted = re.escape("\n".join(line.rstrip() for line in shown.strip().splitlines()))
    got = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(wanted.replace(r"\.\.\.", ".*"), got, re.DOTALL) is not None


def in_process(command: str) -> None:
    """Run a command of ours in this process, a query without Spark; pass over other commands."""
    ours = OURS.match(command)
    if not ours:
        return
    words = shlex.split(command)[1:]
    if words[0] == "run" and "--host" not in words:
        words += ["--host", "local"]
    try:
        if ours.group(1) == "lowwater":
            main(words)
        else:
            run_script(*words)
    except SystemExit as ended:
        if ended.code:
            raise AssertionError(f"{command} ended with {ended.code}") from ended


def run_script(name: str, *words: str) -> None:
    """Run a script of ours as the command line would."""
    with mock.patch("sys.argv", [name, *words]):
        runpy.run_path(str(ROOT / name), run_name="__main__")


def spelled(command: str) -> None:
    """Check that a command of ours and its options exist, without running it."""
    program, *words = [*shlex.split(command), "--help"]
    with printing():
        try:
            main(words) if program.endswith("lowwater") else run_script(*words)
        except SystemExit as ended:
            if ended.code:
                raise AssertionError(f"{command}: there is no such command") from ended
