"""Schemas of programs (`codec.schedules.schedule`, `codec.schedules.process_job`)."""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.shape.schemas import (
    NAMESPACE,
    Definitions,
    Schema,
    answer,
    any_text,
    anything,
    array,
    boolean,
    choice,
    constant,
    drop_members,
    duration,
    extend,
    integer,
    name,
    object_by_name,
    one_of,
    record,
    text,
    texts,
)
from streamsched.domain.graph.job_template import ComponentKind
from streamsched.domain.jobs.failure import LARGEST_EXIT_CODE
from streamsched.domain.limits import MOST_PARTS
from streamsched.domain.programs.output import MOST_OUTPUTS, OutputFormat
from streamsched.domain.programs.spark_needs import MOST_CORES, MOST_ENTRIES, MOST_EXECUTORS

#: Members of every program and schedule beside their name.
OWNED: Final = {"namespace": name("default", NAMESPACE), "application": name("flights")}

_COMMON: Final = record(
    {"name": name("join")}, {**OWNED, "defaults": texts(about="Default arguments.", maxProperties=MOST_PARTS)}
)
_SECRET: Final = record({"secret": text("env:DB_PASSWORD")}, about="A secret by reference.")
_BUNDLE: Final = text("", about="SHA-256 of the bundle in which relative paths are.")
_SUCCESS_CODES: Final = array(integer(99, least=1, most=LARGEST_EXIT_CODE), maxItems=LARGEST_EXIT_CODE)
_CORES: Final = integer(2, least=1, most=MOST_CORES)
_MEMORY: Final = text("2g", pattern="^[1-9][0-9]*[kmgtKMGT][bB]?$", about="A size such as `512m` or `2g`.")


def secret_texts(key: str, value: str) -> Schema:
    """An object of texts and secrets."""
    return object_by_name(one_of(text(value), _SECRET), key)


#: Sizes of Spark's processes.
SIZES: Final = {
    "driver": record({}, {"cores": _CORES, "memory": _MEMORY}),
    "executors": record(
        {}, {"instances": integer(4, least=1, most=MOST_EXECUTORS), "cores": _CORES, "memory": _MEMORY}
    ),
}
_CONF: Final = secret_texts("spark.executor.memoryOverhead", "1g")
#: Of a Spark profile as it is set, and as it is written.
PROFILE_MEMBERS: Final = {"master": text("spark://host:7077"), "conf": _CONF, **SIZES}
PROFILE_SETTINGS: Final = answer({"conf": _CONF}, {"master": any_text("spark://host:7077"), **SIZES})
#: Members of programs that have a process.
_OUTPUTS: Final = {
    "outputs": array(
        one_of(
            text("daily"),
            record(
                {"dataset": text("daily")},
                {"format": choice(OutputFormat), "location": text("s3://lake/daily")},
            ),
        ),
        about="The datasets that it writes.",
        maxItems=MOST_OUTPUTS,
    ),
    "done_when_committed": boolean(),
}
_PROCESS: Final = {
    **_OUTPUTS,
    "arguments": array(text("{day}")),
    "folder": text("/srv/flights"),
    "env": secret_texts("TZ", "UTC"),
    "bundle": _BUNDLE,
}


def _program(kind: str, required: dict[str, Schema], optional: dict[str, Schema], **rules: Any) -> Schema:
    return {**extend(_COMMON, record({"type": constant(kind), **required}, optional)), **rules}


_SPARK: Final = {
    "master": text("spark://host:7077"),
    "conf": secret_texts("spark.executor.memory", "2g"),
    "profile": text("large", about="The Spark profile with its other settings."),
    "py_files": array(text("library.py"), maxItems=MOST_ENTRIES),
    "packages": array(text("org.apache.hadoop:hadoop-aws:3.3.4"), maxItems=MOST_ENTRIES),
    "jars": array(text("udf.jar"), maxItems=MOST_ENTRIES),
    "files": array(text("codes.csv"), maxItems=MOST_ENTRIES),
    "archives": array(text("environment.tar.gz#environment"), maxItems=MOST_ENTRIES),
    "requirements": text("requirements.txt", about="A requirements file of pip."),
    **SIZES,
    "env_from_os": array(text("AWS_REGION")),
    "uris": array(text("s3://bucket/library.zip")),
    **_PROCESS,
}
_CLASS: Final = text("com.acme.Join", about="Of a `main` that is a jar, the class whose `main` is called.")
#: The kinds of programs. A Spark program names a file or a module; an event that completes nodes of a graph has `node`.
KINDS: Final = (
    _program("spark", {"main": text("join.py")}, {"pymodule": text("tasks.join"), "main_class": _CLASS, **_SPARK}),
    _program("spark", {"pymodule": text("tasks.join")}, {"main": text("join.py"), **_SPARK}),
    _program(
        "bash", {"command": text("rm -rf scratch")}, {"fill": boolean(), "success_codes": _SUCCESS_CODES, **_OUTPUTS}
    ),
    _program("python", {"target": text("models:train")}, {"success_codes": _SUCCESS_CODES, **_PROCESS}),
    _program(
        "http",
        {"url": one_of(text("https://example.org/ready"), _SECRET)},
        {
            "method": text("POST"),
            "headers": secret_texts("X-Team", "data"),
            "timeout": duration("30s"),
            "body": one_of(text("{day}"), _SECRET),
        },
    ),
    _program("publish", {"event": text("default.approved")}, {"attributes": texts("day", "{day}")}),
    _program(
        "publish",
        {"node": text("{date}"), "delimiter": text("_")},
        {
            "components": object_by_name(choice(ComponentKind), "date"),
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
    "NamedProgram": one_of(*(drop_members(each, "name") for each in KINDS), about="A program below its name."),
}
