"""Profiles of Spark programs: settings in one place, which programs name.

A program's own settings take precedence over those of its profile. A profile of the program's namespace takes
precedence over one of the installation with the same name, as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import check_most
from streamsched.domain.names import check_queue_name
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.spark_needs import (
    MOST_ENTRIES,
    DriverSize,
    ExecutorSize,
    check_secret_conf,
    check_sizes_beside,
    conf_path,
)

#: The namespace of the profiles of the installation.
EVERYWHERE: Final = "*"
#: Settings that are given otherwise, and how.
_ELSEWHERE: Final[Mapping[str, str]] = {
    "spark.master": "give it as master",
    "spark.submit.deployMode": "programs have their deploy mode",
    "spark.app.name": "an application is named by its run",
}


@dataclass(frozen=True, slots=True)
class SparkProfile:
    """A named set of settings.

    Attributes:
        master: Spark master URL; None: none.
        conf, secret_conf: settings of Spark, and those whose values are secrets.
        driver, executors: their sizes.
    """

    name: str
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict[str, str])
    secret_conf: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    driver: DriverSize = field(default_factory=DriverSize)
    executors: ExecutorSize = field(default_factory=ExecutorSize)

    def __post_init__(self) -> None:
        check_queue_name(self.name, "$.name")
        if self.master is not None and not self.master.strip():
            raise InvalidDefinitionError("$.master", "is empty")
        check_most(len(self.conf) + len(self.secret_conf), MOST_ENTRIES, "$.conf", "settings")
        for name in (*self.conf, *self.secret_conf):
            if name in _ELSEWHERE:
                raise InvalidDefinitionError(conf_path(name), f"cannot be set by a profile: {_ELSEWHERE[name]}")
            if not name or "=" in name or not name.isprintable() or any(each.isspace() for each in name):
                raise InvalidDefinitionError("$.conf", "must have names without space and '='")
        for name, value in self.conf.items():
            if "\0" in value:
                raise InvalidDefinitionError(conf_path(name), "holds a NUL")
        check_secret_conf(self.secret_conf)
        check_sizes_beside({**self.conf, **dict.fromkeys(self.secret_conf, "")}, self.driver, self.executors)
        if both := self.conf.keys() & self.secret_conf.keys():
            raise InvalidDefinitionError(conf_path(min(both)), "is given twice")

    def settings(self) -> dict[str, str]:
        """Its plain settings, with those that its sizes stand for."""
        return {**self.conf, **self.driver.conf(), **self.executors.conf()}
