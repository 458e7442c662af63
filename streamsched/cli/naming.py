"""Names in commands and their output: the namespace `default` is omitted.

`app.name` is a schedule or program of the default namespace, `namespace.app.name` one of another namespace. The id of
a job has two more parts (generation and sequence), the id of a run three (with `r1` for the first attempt). A submitted
job is `app.name.submitted-KEY`, one of a backfill `app.name.backfill-KEY.NUMBER`, that of a node `app.task.node-KEY`, a
rerun adds `.rerun-KEY`, a manual run is `app.name.manual-TOKEN.r1`.
"""

from __future__ import annotations

import re
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.names import DEFAULT_NAMESPACE

_PREFIX: Final = f"{DEFAULT_NAMESPACE}."
#: Ids of jobs and runs without their namespace.
_OF_SCHEDULE: Final = r"(\d+\.\d+|(?:submitted|node)-[\w-]+|backfill-[\w-]+\.\d+)(\.rerun-[\w-]+)*"
_JOB: Final = re.compile(rf"[\w-]+\.[\w~-]+\.{_OF_SCHEDULE}")
_RUN: Final = re.compile(rf"[\w-]+\.[\w~-]+\.({_OF_SCHEDULE}|(manual|missed)-.+)\.r\d+")
_BACKFILL: Final = re.compile(r"[\w-]+\.[\w~-]+\.backfill-[\w-]+")
#: A name of the default namespace within a sentence.
_WITHIN: Final = re.compile(rf"(?<![\w.$/-]){DEFAULT_NAMESPACE}\.(?=[\w$-])")


def full_name(text: str) -> str:
    """The id of a schedule or program from `[namespace.]app.name`; empty for an empty text.

    Raises:
        InvalidError: the name has another number of parts.
    """
    match text.count("."):
        case 1:
            return _PREFIX + text
        case 2:
            return text
        case _ if not text:
            return ""
        case _:
            raise InvalidError(text, "is not of the form app.name or namespace.app.name")


def full_app(text: str) -> str:
    """The id of an app from `[namespace.]app`; empty for an empty text.

    Raises:
        InvalidError: the name has another number of parts.
    """
    if text.count(".") > 1:
        raise InvalidError(text, "is not of the form app or namespace.app")
    return _PREFIX + text if text and "." not in text else text


def full_job(text: str) -> str:
    """The id of a job, with its namespace."""
    return _PREFIX + text if _JOB.fullmatch(text) and not text.startswith(_PREFIX) else text


def full_backfill(text: str) -> str:
    """The id of a backfill, with its namespace."""
    return _PREFIX + text if _BACKFILL.fullmatch(text) and not text.startswith(_PREFIX) else text


def full_run(text: str) -> str:
    """The id of a run, with its namespace."""
    return _PREFIX + text if _RUN.fullmatch(text) and not text.startswith(_PREFIX) else text


def short_name(name: str) -> str:
    """An id without the default namespace; `full_name` and the like restore it. The id of an app named `default` is
    not shortened.
    """
    rest = name.removeprefix(_PREFIX)
    return name if rest.startswith(_PREFIX) else rest


def without_default(sentence: str) -> str:
    """A sentence with the default namespace removed from the names in it."""
    return _WITHIN.sub("", sentence)


def field_path(path: str) -> str:
    """A path into a document without `$`: `schedules[2].trigger` for `$.schedules[2].trigger`; empty for the document
    itself.
    """
    prefix, dollar, rest = path.rpartition("$") if path.startswith("$") or " $" in path else (path, "", "")
    inner = rest.removeprefix(".")
    return f"{prefix}{inner}".strip() if dollar else path
