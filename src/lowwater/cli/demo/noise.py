"""Keeps Spark's own output off the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_OUTPUTS = (1, 2)


@contextmanager
def output_into(log: Path) -> Iterator[None]:
    """Send what is written by processes started here into a file, for as long as they live.

    The Java process, and the workers it starts, inherit the outputs of the moment they start;
    this process has its own back afterwards.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(output) for output in _OUTPUTS]
    with log.open("wb") as target:
        for output in _OUTPUTS:
            os.dup2(target.fileno(), output)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for output, own in zip(_OUTPUTS, kept, strict=True):
            os.dup2(own, output)
            os.close(own)


def own_stdout() -> TextIO:
    """Return standard output under a descriptor of its own, which `output_into` does not move."""
    return os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding)
