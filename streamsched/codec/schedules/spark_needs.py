"""What a Spark program needs, and profiles, as JSON:

{"main_class"?: name, "profile"?: name, "py_files"?: […], "packages"?: […], "jars"?: […], "files"?: […],
 "archives"?: […], "requirements"?: path, "driver"?: {"cores"?, "memory"?},
 "executors"?: {"instances"?, "cores"?, "memory"?}, "bundle"?: SHA-256}

A profile: {"master"?: text, "conf"?: {…}, "driver"?: {…}, "executors"?: {…}}. Secrets of `conf` and `env` are among
their values (`codec.json.secret`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.codec.json.secret import plain_and_secret, with_secrets
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.spark_needs import DriverSize, ExecutorSize, SparkNeeds
from streamsched.domain.programs.spark_profile import SparkProfile

_LISTS = ("py_files", "packages", "jars", "files", "archives")


def needs_to_json(needs: SparkNeeds) -> dict[str, Any]:
    """The fields that a program has besides those of its job; what is empty is left out."""
    lists = {name: list(getattr(needs, name)) for name in _LISTS}
    rest = {"requirements": needs.requirements, **_sizes(needs.driver, needs.executors), "bundle": needs.bundle}
    named = {"main_class": needs.main_class, "profile": needs.profile}
    return {name: value for name, value in {**named, **lists, **rest}.items() if value}


def needs_from_json(fields: Fields, secret_conf: Mapping[str, Secret], secret_env: Mapping[str, Secret]) -> SparkNeeds:
    """Reads these fields of a program.

    Raises:
        DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    lists = {name: fields.text_list(name) for name in _LISTS}
    main_class = fields.optional_text("main_class") or ""
    profile, bundle = fields.optional_text("profile") or "", fields.optional_text("bundle") or ""
    driver, executors = _driver(fields), _executors(fields)
    requirements = fields.optional_text("requirements") or ""
    with prefix_errors(fields.path):
        return SparkNeeds(
            profile=profile,
            requirements=requirements,
            driver=driver,
            executors=executors,
            secret_conf=secret_conf,
            secret_env=secret_env,
            bundle=bundle,
            main_class=main_class,
            **lists,
        )


def profile_to_json(profile: SparkProfile) -> dict[str, Any]:
    """The canonical JSON of a profile, without its name."""
    return {
        **({} if profile.master is None else {"master": profile.master}),
        "conf": with_secrets(profile.conf, profile.secret_conf),
        **_sizes(profile.driver, profile.executors),
    }


def profile_from_json(name: str, obj: object, path: str = "$") -> SparkProfile:
    """Decodes a profile.

    Raises:
        DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    fields = Fields(obj, path)
    master, conf = fields.optional_text("master"), plain_and_secret(fields, "conf")
    driver, executors = _driver(fields), _executors(fields)
    fields.check_all_read()
    with prefix_errors(path):
        return SparkProfile(name, master, conf.plain, conf.secret, driver, executors)


def _driver(fields: Fields) -> DriverSize:
    inner = fields.optional_object("driver")
    if inner is None:
        return DriverSize()
    cores, memory = inner.optional_integer("cores"), inner.optional_text("memory")
    inner.check_all_read()
    with prefix_errors(fields.path):
        return DriverSize(cores, memory)


def _executors(fields: Fields) -> ExecutorSize:
    inner = fields.optional_object("executors")
    if inner is None:
        return ExecutorSize()
    instances, cores = inner.optional_integer("instances"), inner.optional_integer("cores")
    memory = inner.optional_text("memory")
    inner.check_all_read()
    with prefix_errors(fields.path):
        return ExecutorSize(instances, cores, memory)


def _sizes(driver: DriverSize, executors: ExecutorSize) -> dict[str, Any]:
    parts = {
        "driver": {"cores": driver.cores, "memory": driver.memory},
        "executors": {"instances": executors.instances, "cores": executors.cores, "memory": executors.memory},
    }
    given = {part: {name: value for name, value in size.items() if value is not None} for part, size in parts.items()}
    return {part: size for part, size in given.items() if size}
