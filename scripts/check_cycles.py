"""Fails if modules of a package import each other in a circle; lazy imports count, too."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import grimp

Imports = Mapping[str, set[str]]


def cycles(imports: Imports) -> Iterator[list[str]]:
    """Yield the groups of modules that import each other, directly or not (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(imports[module]):
            if other not in index:
                yield from visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                yield group

    for module in sorted(imports):
        if module not in index:
            yield from visit(module)


def shortest(group: list[str], imports: Imports) -> list[str]:
    """Return the shortest circle through the first module of a group."""
    first, members = group[0], set(group)
    ways = [[first]]
    while True:
        ways = [[*way, to] for way in ways for to in sorted(imports[way[-1]] & members)]
        closed = [way for way in ways if way[-1] == first]
        if closed:
            return closed[0]
        ways = list({way[-1]: way for way in ways}.values())


def main(package: str) -> int:
    """Print the circles of imports in a package; return 1 if there are any."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
    imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    found = list(cycles(imports))
    for group in found:
        print(f"{len(group)} modules import each other:")
        print("  " + "\n  -> ".join(shortest(group, imports)))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(max(map(main, sys.argv[1:] or ["lowwater"])))
