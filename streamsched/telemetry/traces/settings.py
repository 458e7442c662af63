"""Settings of traces, read from the standard variables of OpenTelemetry (`OTEL_*`).

The endpoint, headers, certificates, timeout and compression (`OTEL_EXPORTER_OTLP_*`), `OTEL_SERVICE_NAME` and
`OTEL_RESOURCE_ATTRIBUTES` are read by OpenTelemetry's own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from streamsched.domain.backoff import double_pause
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.events.sampler import Sampler

log = structlog.get_logger()

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
_BY_PARENT: Final = "parentbased_"
_DEFAULT: Final = "parentbased_always_on"
#: The longest pause in seconds between two attempts at a receiver that is away.
_LONGEST_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """How spans are made and sent.

    Attributes:
        sampler: of `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`.
        every: the interval of sending (`OTEL_BSP_SCHEDULE_DELAY`).
        capacity: most spans that wait in memory (`OTEL_BSP_MAX_QUEUE_SIZE`).
        batch: most spans of one request (`OTEL_BSP_MAX_EXPORT_BATCH_SIZE`).
    """

    sampler: Sampler = field(default_factory=Sampler)
    every: timedelta = timedelta(seconds=5)
    capacity: int = 2048
    batch: int = 512

    def pause(self, failures: int) -> float:
        """Seconds before the next request after so many failures in a row."""
        every = self.every.total_seconds()
        return double_pause(every, failures, longest=max(every, _LONGEST_PAUSE))


def trace_settings(environ: Mapping[str, str]) -> TraceSettings | None:
    """The settings; None when `OTEL_SDK_DISABLED` is true.

    Raises:
        ConfigurationError: a variable is malformed, or asks for another protocol than OTLP over HTTP.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    for name in _PROTOCOLS:
        if environ.get(name, _PROTOCOL) not in ("", _PROTOCOL):
            raise ConfigurationError(f"{name} must be {_PROTOCOL}: spans are sent by OTLP over HTTP only")
    return TraceSettings(
        sampler=sampler(environ),
        every=timedelta(milliseconds=_read_integer(environ, "OTEL_BSP_SCHEDULE_DELAY", 5000)),
        capacity=_read_integer(environ, "OTEL_BSP_MAX_QUEUE_SIZE", 2048),
        batch=_read_integer(environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
    )


def run_sampler(environ: Mapping[str, str], *, traces: bool) -> Sampler | None:
    """The sampler of a process that hands contexts on; None when no spans are made (`traces`: `Settings.traces`).

    Raises:
        ConfigurationError: as `trace_settings`.
    """
    read = trace_settings(environ) if traces else None
    return None if read is None else read.sampler


def sampler(environ: Mapping[str, str]) -> Sampler:
    """The sampler of `OTEL_TRACES_SAMPLER`; the default of OpenTelemetry, with a log line, when it is unknown.

    Raises:
        ConfigurationError: the ratio is not a number from 0 to 1.
    """
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower() or _DEFAULT
    kind = name.removeprefix(_BY_PARENT)
    by_parent = kind != name
    match kind:
        case "always_on":
            return Sampler(1.0, by_parent)
        case "always_off":
            return Sampler(0.0, by_parent)
        case "traceidratio":
            return Sampler(_ratio(environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip() or "1.0"), by_parent)
        case _:
            log.warning("traces.sampler_unknown", sampler=name, used=_DEFAULT)
            return Sampler()


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise ConfigurationError(f"OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1 but is '{text}'")
    return ratio


def _read_integer(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ConfigurationError(f"{name} must be a whole number above 0 but is '{text}'")
    return int(text)
