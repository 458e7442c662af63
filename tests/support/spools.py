"""A claim on the oldest file of a spool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from streamsched.emit.spool import Spool
from streamsched.emit.spooled_file import SpooledFile


@contextmanager
def oldest(spool: Spool) -> Iterator[SpooledFile | None]:
    """Claims the oldest file that may be sent, during the block; None: there is none."""
    with closing(spool.claims()) as files:
        yield next(files, None)
