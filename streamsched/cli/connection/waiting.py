"""A notice at the terminal while something takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Seconds before the notice appears, and between its updates.
_PATIENCE: Final = 1.0
#: Moves to the beginning of the line and clears it.
_CLEAR: Final = "\r\x1b[K"


@contextmanager
def notice(text: str) -> Iterator[None]:
    """Shows `text` with the seconds so far in the last line of the terminal's error output, from one second on until
    the block ends. Nothing is shown in a pipe or file.
    """
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(text, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(text: str, ended: threading.Event) -> None:
    began, shown = time.monotonic(), False
    while not ended.wait(_PATIENCE):
        shown = True
        sys.stderr.write(f"{_CLEAR}{text} ({time.monotonic() - began:.0f} s)")
        sys.stderr.flush()
    if shown:
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
