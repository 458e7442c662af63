"""What a Spark program needs, as the builder reads it: lists, sizes, values that are texts or secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.spark_needs import DriverSize, ExecutorSize
from streamsched.domain.schedules.process_job import SparkJob

_S = TypeVar("_S", DriverSize, ExecutorSize)

_DRIVER: Final = ("cores", "memory")
_EXECUTORS: Final = ("instances", "cores", "memory")


def secret(reference: str) -> Secret:
    """A reference to a secret, as the value of a variable, a setting or a header, or within the text of one.

    Args:
        reference: `env:NAME`, a variable of the launcher; `file:/path`, or `file:/path#key` of a JSON object; or
            `provider:name` of an entry point of group `streamsched.secret_providers`. `STREAMSCHED_SECRETS` of the
            launcher says which ones a namespace may refer to.
    """
    return Secret.parse(reference, "secret()")


def divide_secrets(given: Mapping[str, str | Secret] | None, path: str) -> tuple[dict[str, str], dict[str, Secret]]:
    """The values that are texts, and those that are secrets.

    Raises:
        InvalidDefinitionError: a name is no text, or a value is neither.
    """
    plain: dict[str, str] = {}
    secrets: dict[str, Secret] = {}
    for name, value in (given or {}).items():
        if isinstance(name, str) and isinstance(value, Secret):
            secrets[name] = value
        elif isinstance(name, str) and isinstance(value, str):
            plain[name] = value
        else:
            raise InvalidDefinitionError(f"{path}.{name}", f"must be a text but is {value!r}")
    return plain, secrets


def driver_size(given: Mapping[str, Any] | None) -> DriverSize:
    """The size of a driver from the fields that users write.

    Raises:
        InvalidDefinitionError: a field is unknown or wrong.
    """
    return _size(DriverSize, given, _DRIVER, "$.driver")


def executor_size(given: Mapping[str, Any] | None) -> ExecutorSize:
    """The size of the executors from the fields that users write.

    Raises:
        InvalidDefinitionError: a field is unknown or wrong.
    """
    return _size(ExecutorSize, given, _EXECUTORS, "$.executors")


def check_list(values: Iterable[str | Path], path: str) -> tuple[str, ...]:
    """The values as texts; one text alone is refused, which would be read letter by letter.

    Raises:
        InvalidDefinitionError: it is one text.
    """
    if isinstance(values, str):
        raise InvalidDefinitionError(path, "must be a list of texts but is one text")
    return tuple(str(each) for each in values)


def located_spark(job: SparkJob, base: Path) -> SparkJob:
    """The job with the paths of its files and folders resolved against `base`; URLs are not changed."""
    needs = job.needs

    def all_of(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(located_path(each, base) for each in paths)

    return replace(
        job,
        main=located_path(job.main, base) if job.module is None else "",
        folder="" if job.module is None else located_path(job.folder or ".", base),
        uris=all_of(job.uris),
        needs=replace(
            needs,
            py_files=all_of(needs.py_files),
            jars=all_of(needs.jars),
            files=all_of(needs.files),
            archives=all_of(needs.archives),
            requirements=located_path(needs.requirements, base) if needs.requirements else "",
        ),
    )


def located_path(path: str, base: Path) -> str:
    """The absolute path; of an archive with its `#name`. A URL is not changed."""
    if "://" in path:
        return path
    plain, sign, name = path.partition("#")
    return f"{(base / plain).resolve()}{sign}{name}"


def _size(kind: type[_S], given: Mapping[str, Any] | None, known: tuple[str, ...], path: str) -> _S:
    if given is None:
        return kind()
    if not isinstance(given, Mapping):
        raise InvalidDefinitionError(path, f"must be a mapping with {', '.join(known)} but is {given!r}")
    for name in given:
        if name not in known:
            raise InvalidDefinitionError(f"{path}.{name}", f"is no field of it (known: {', '.join(known)})")
    memory = given.get("memory")
    if memory is not None and not isinstance(memory, str):
        raise InvalidDefinitionError(f"{path}.memory", f"must be a size such as '2g' but is {memory!r}")
    return kind(**given)
