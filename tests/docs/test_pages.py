"""The code blocks of the pages run and print the shown output; the reference is complete."""

from __future__ import annotations

import ast
import re
from pkgutil import resolve_name
from types import ModuleType

import pytest

import lowwater as lw
from scripts.drawings import DRAWINGS
from tests.docs.pages import (
    OURS,
    PAGES,
    ROOT,
    blocks,
    execute,
    needs_spark,
    prepare,
    run_page,
    shows,
    spelled,
)

WITHOUT_SPARK = [p for p in PAGES if blocks(p) and not needs_spark(p)]
SET_ASIDE = [b for p in PAGES for b in blocks(p) if b.reason is not None]
MAKE = re.compile(r"^make (\w+)")


def named(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITHOUT_SPARK, ids=named)
def test_a_page_runs_as_it_is_printed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    prepare(tmp_path)
    run_page(page)


def test_what_is_not_run_is_spelled_right():
    for block in SET_ASIDE:
        if block.language == "python":
            ast.parse(block.code)
        for command in block.commands:
            spelled(command)


def test_few_blocks_are_not_run():
    found = {named(block.page) for block in SET_ASIDE}
    assert found == {
        "README.md",
        "docs/command.md",
        "docs/examples.md",
        "docs/experiments.md",
        "docs/page.md",
    }


def test_commands_of_others_are_targets_of_the_makefile():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    every = [c for p in PAGES for b in blocks(p) for c in b.commands if not OURS.match(c)]
    assert every
    for command in every:
        assert MAKE.match(command).group(1) in targets, command


def test_the_reference_has_every_public_name_once():
    text = (ROOT / "docs" / "api.md").read_text()
    paths = re.findall(r"^::: (lowwater\.[\w.]+)$", text, re.MULTILINE)
    names = [path.rpartition(".")[2] for path in paths]
    by_hand, beside = ["windows"], ["EpochOutput", "WindowedStream", "play"]
    assert sorted([*names, *by_hand]) == sorted([*lw.__all__, *beside])
    for path, name in zip(paths, names, strict=True):
        there = resolve_name(path)
        assert name in beside or there is getattr(lw, name)
        assert not isinstance(there, ModuleType)


def test_every_page_is_on_the_site():
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    there = {named(page) for page in PAGES if page.parent != ROOT}
    assert {f"docs/{page}" for page in re.findall(r"[\w/-]+\.md", nav)} == there


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_are_what_their_script_draws(name):
    kept = ROOT / "docs" / "images" / f"concept-{name}.svg"
    assert kept.read_text(encoding="utf-8") == DRAWINGS[name]().svg()


def test_a_page_that_shows_something_else_fails(tmp_path, monkeypatch):
    page = ROOT / "docs" / "other.md"
    monkeypatch.setattr(type(page), "read_text", lambda *_, **__: TEXT)
    first, second = blocks(page)
    assert (first.line, second.reason) == (1, "no reason")
    with pytest.raises(AssertionError, match="shows\n3\nand prints\n2"):
        execute(first, {})


TEXT = """```python
print(1 + 1)
```
```text
3
```

<!-- no-run: no reason -->
```sh
make fun  # of it
```
"""


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        ("a\nb", True),
        ("a ...", False),
        ("a...", True),
        ("a\n...", True),
        ("b", False),
        ("a", False),
    ],
)
def test_dots_stand_for_anything(shown, same):
    assert shows(shown, "a\nb  \n") is same
