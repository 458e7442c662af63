"""CDAP's HTTP interface: errors are plain text, with CDAP's message where CDAP defines one."""

from __future__ import annotations

from typing import Final

from streamsched.api.routing.dialect import HttpDialect
from streamsched.dialects.cdap.codec.trigger import VERSION
from streamsched.dialects.cdap.default_namespace import DefaultNamespace
from streamsched.domain.errors import NotFoundError, StreamschedError
from streamsched.domain.names import ScheduleRef

_ENTITIES: Final = frozenset({"application", "program", "schedule"})


def message(error: StreamschedError) -> str:
    """CDAP's message for an error; for errors CDAP does not have, our message with a capital letter."""
    if isinstance(error, NotFoundError) and error.kind in _ENTITIES:
        namespace, app, *names = error.name.split(".")
        if error.kind == "schedule":
            names = [ScheduleRef.parse(error.name).name]
        return f"'{error.kind}:{'.'.join([namespace, app, VERSION, *names])}' was not found."
    text = str(error)
    return text[:1].upper() + text[1:]


CDAP: Final = HttpDialect(name="cdap", prefix="/v3/", message=message, reads_forms=True, middleware=DefaultNamespace)
