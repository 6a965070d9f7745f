"""Redirects Spark's messages from the terminal to a file, and handles Ctrl-C."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_OUTPUTS = (1, 2)


@contextmanager
def output_into(log: Path) -> Iterator[None]:
    """Redirect the output of processes that start in the `with` block into the file `log`.

    The Java process and its workers inherit the redirected descriptors and keep them. This process
    gets its own descriptors back at the end of the block.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    own = [os.dup(output) for output in _OUTPUTS]
    with log.open("ab") as target:
        for output in _OUTPUTS:
            os.dup2(target.fileno(), output)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for output, saved in zip(_OUTPUTS, own, strict=True):
            os.dup2(saved, output)
            os.close(saved)


@contextmanager
def logging_into(log: Path) -> Iterator[None]:
    """Write log messages of this process, such as Py4J's after Ctrl-C, to the file `log`."""
    handler = logging.FileHandler(log, encoding="utf-8")
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextmanager
def _on_interrupt(press: Callable[[], object]) -> Iterator[None]:
    """Call `press` on Ctrl-C during the `with` block, instead of the previous handler."""
    before = signal.signal(signal.SIGINT, lambda *_: press())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C to the end of the `with` block, so that no half-started Java process remains."""
    pressed = threading.Event()
    with _on_interrupt(pressed.set):
        yield
    if pressed.is_set():
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C in the `with` block, even if Py4J raises another error."""
    pressed = threading.Event()

    def press() -> None:
        pressed.set()
        raise KeyboardInterrupt

    with _on_interrupt(press):
        try:
            yield
        except Exception:
            if pressed.is_set():
                raise KeyboardInterrupt from None
            raise


@contextmanager
def stop_request() -> Iterator[threading.Event]:
    """Yield a `threading.Event`. The first Ctrl-C sets it; the second raises KeyboardInterrupt."""
    pressed = threading.Event()

    def press() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    with _on_interrupt(press):
        yield pressed


def own_stdout() -> TextIO:
    """Return standard output as a new descriptor, which `output_into` does not redirect."""
    return _own(sys.stdout)


def own_stderr() -> TextIO:
    """Return standard error as a new descriptor, which `output_into` does not redirect."""
    return _own(sys.stderr)


def _own(stream: TextIO) -> TextIO:
    return os.fdopen(os.dup(stream.fileno()), "w", encoding=stream.encoding)
