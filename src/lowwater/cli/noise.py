"""Keeps Spark's own words off the terminal, and Ctrl-C in our hands."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
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
    with log.open("ab") as target:
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


@contextmanager
def logging_into(log: Path) -> Iterator[None]:
    """Send what this process logs into a file, such as Py4J's account of a Ctrl-C."""
    handler = logging.FileHandler(log, encoding="utf-8")
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back to the end: a Java process that is left while it starts would stay."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C be a KeyboardInterrupt, also where Py4J makes an error of its own of it."""
    pressed = []

    def press(number: int, frame: FrameType | None) -> None:
        del frame
        pressed.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield
    except Exception:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def noticed() -> Iterator[threading.Event]:
    """Only take note of the first Ctrl-C, so that what is at work can end; obey the second."""
    pressed = threading.Event()

    def press(number: int, frame: FrameType | None) -> None:
        del number, frame
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def own_stdout() -> TextIO:
    """Return standard output under a descriptor of its own, which `output_into` does not move."""
    return _own(sys.stdout)


def own_stderr() -> TextIO:
    """Return standard error the same way."""
    return _own(sys.stderr)


def _own(stream: TextIO) -> TextIO:
    return os.fdopen(os.dup(stream.fileno()), "w", encoding=stream.encoding)
