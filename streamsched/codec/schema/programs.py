"""Schemas of programs (`codec.schedules.schedule`, `codec.schedules.process_job`)."""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.schema.shapes import (
    NAMESPACE,
    Definitions,
    Schema,
    anything,
    boolean,
    choice,
    constant,
    duration,
    extended,
    listed,
    name,
    named,
    one_of,
    record,
    text,
    texts,
    without,
)
from streamsched.domain.graph.job_template import ComponentKind

#: Members of every program and schedule beside their name.
OWNED: Final = {"namespace": name("default", NAMESPACE), "application": name("flights")}

_COMMON: Final = record({"name": name("join")}, {**OWNED, "defaults": texts(about="Default arguments.")})
_PROCESS: Final = {"arguments": listed(text("{day}")), "folder": text("/srv/flights"), "env": texts("TZ", "UTC")}


def _program(kind: str, required: dict[str, Schema], optional: dict[str, Schema], **rules: Any) -> Schema:
    return {**extended(_COMMON, record({"type": constant(kind), **required}, optional)), **rules}


_SPARK: Final = {
    "master": text("spark://host:7077"),
    "conf": texts("spark.executor.memory", "2g"),
    "env_from_os": listed(text("AWS_REGION")),
    "uris": listed(text("s3://bucket/library.zip")),
    **_PROCESS,
}
#: The kinds of programs. A Spark program names a file or a module; an event that completes nodes of a graph has `node`.
KINDS: Final = (
    _program("spark", {"main": text("join.py")}, {"pymodule": text("tasks.join"), **_SPARK}),
    _program("spark", {"pymodule": text("tasks.join")}, {"main": text("join.py"), **_SPARK}),
    _program("bash", {"command": text("rm -rf scratch")}, {"fill": boolean()}),
    _program("python", {"target": text("models:train")}, _PROCESS),
    _program(
        "http",
        {"url": text("https://example.org/ready")},
        {"method": text("POST"), "headers": texts("X-Team", "data"), "timeout": duration("30s"), "body": text("{day}")},
    ),
    _program("publish", {"event": text("default.approved")}, {"attributes": texts("day", "{day}")}),
    _program(
        "publish",
        {"node": text("{date}"), "delimiter": text("_")},
        {
            "components": named(choice(ComponentKind), "date"),
            "format": texts("date", "%Y%m%d"),
            "zone": text("Europe/Berlin"),
            "back": duration("1d"),
        },
    ),
    _program(
        "enqueue",
        {"queue": text("mail")},
        {"lane": text("{key.customer}"), "key": text("{day}"), "after": duration("10m"), "data": anything({"to": "x"})},
    ),
)

PROGRAMS: Final[Definitions] = {
    "Program": one_of(*KINDS, about="What a schedule starts."),
    "NamedProgram": one_of(*(without(each, "name") for each in KINDS), about="A program below its name."),
}
