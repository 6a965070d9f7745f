"""Find the code blocks of the documentation and run them as a reader would.

The blocks of a page run in order, in one namespace, in a folder with the readings of the tutorial.
The block after a code block shows its output; `...` matches anything. A block with the comment
`<!-- no-run: why -->` before it does not run: the test only checks that its commands exist.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.csv as pacsv

import lowwater as lw
from lowwater.cli.app import main

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
OURS = re.compile(r"^(?:\.venv/bin/)?(lowwater|python (?:examples/\w+\.py|-m \w+))\b")
"""Commands of this repository: they run, or the test checks that they exist."""
SECONDS = 60
"""How long a running query has to print the output of the page."""

_FENCE = re.compile(r"^```([^`\n]*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_REASON = re.compile(r"<!-- no-run: (.+) -->\n$")


@dataclass(frozen=True)
class Block:
    """A code block of a page, the output the page shows, and the reason if it cannot run."""

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
        """The lines of a shell block, without comments."""
        lines = self.code.splitlines() if self.language == "sh" else []
        commands = [shlex.join(shlex.split(line, comments=True)) for line in lines]
        return [command for command in commands if command]


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page."""
    text, code_blocks, end = page.read_text(encoding="utf-8"), [], -1
    for fence in _FENCE.finditer(text):
        language, code = fence.groups()
        if language in {"", "text"} and code_blocks and fence.start() - end <= 1:
            last = code_blocks.pop()
            code_blocks.append(replace(last, shown=code.rstrip()))
        elif language in {"python", "sh"}:
            reason = _REASON.search(text, 0, fence.start())
            line = text.count("\n", 0, fence.start()) + 1
            block = Block(page, line, language, code, None, reason and reason.group(1))
            code_blocks.append(block)
            end = fence.end()
    return code_blocks


def needs_spark(page: Path) -> bool:
    return any(
        re.search(r"\bspark\b|\.start\(", b.code) and b.reason is None
        for b in blocks(page)
        if b.language == "python"
    )


def prepare(folder: Path) -> None:
    """Write the files that pages read: the readings of the tutorial, and a query."""
    execute(blocks(TUTORIAL)[0], {})
    schema = "ts timestamp, segment int, speed double"
    files = lw.stream(
        lw.files("readings", format="json", schema=schema), time="ts", watermark=lw.ordered()
    )
    rows = files.run(host="local").results
    pacsv.write_csv(rows, folder / "readings.csv")
    (folder / "speeds.cql").write_text(
        "SELECT segment, max(speed) AS fastest FROM traffic [RANGE 5 minutes] GROUP BY segment"
    )


def run_page(page: Path) -> None:
    """Run the blocks of a page, then stop its running queries."""
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
    """Run a block; raise AssertionError unless it prints the output of the page."""
    with printing() as printed:
        if block.language == "sh":
            for command in block.commands:
                in_process(command)
        else:
            # The traceback then shows the lines of the page.
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
    """Yield a function that returns the captured output.

    Output goes to a real file, because the command writes to its descriptor.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:

        def printed() -> str:
            file.flush()
            # pread leaves the position of the file to the writer.
            return os.pread(file.fileno(), 1 << 20, 0).decode()

        with contextlib.redirect_stdout(file):
            yield printed


def shows(shown: str, printed: str) -> bool:
    """Return whether the output of a page matches the printed text; `...` matches anything."""
    wanted = re.escape("\n".join(line.rstrip() for line in shown.strip().splitlines()))
    got = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(wanted.replace(r"\.\.\.", ".*"), got, re.DOTALL) is not None


def in_process(command: str) -> None:
    """Run a command of this repository in this process, queries on the local host; skip others."""
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
    """Run a script, or the module after `-m`, as the command line would."""
    if name == "-m":
        module, *words = words
        with mock.patch("sys.argv", [module, *words]):
            runpy.run_module(module, run_name="__main__")
        return
    with mock.patch("sys.argv", [name, *words]):
        runpy.run_path(str(ROOT / name), run_name="__main__")


def spelled(command: str) -> None:
    """Check that a command of this repository and its options exist, without running it."""
    program, *words = [*shlex.split(command), "--help"]
    with printing():
        try:
            main(words) if program.endswith("lowwater") else run_script(*words)
        except SystemExit as ended:
            if ended.code:
                raise AssertionError(f"{command}: there is no such command") from ended
