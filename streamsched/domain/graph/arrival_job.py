"""What the schedule of an arrival runs: nothing but the completion of a node, in the transaction of its run's end.

>>> from streamsched.domain.graph.job_template import ComponentKind
>>> daily = ArrivalJob(JobTemplate.parse("{date}", kinds={"date": ComponentKind.DATE}))
>>> daily.job_id({"key.date": "2014-01-01"}, datetime(2014, 1, 2, tzinfo=UTC))
'20140101'
>>> ArrivalJob(daily.template, {"date": "%Y%m%d"}, "Europe/Berlin", timedelta(days=1)).job_id(
...     {}, datetime(2014, 1, 1, 23, tzinfo=UTC)
... )
'20140101'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.graph.job_template import DAY, ComponentKind, JobTemplate
from streamsched.domain.limits import add_duration, check_duration
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import Period, period
from streamsched.domain.time.zone import check_zone, zone_of

#: Directives that mean the same on every system, without names of days and months.
_FORMAT: Final = re.compile(r"(?:%[YmdHMSjGVu%]|[^%])+")
_KEY: Final = "key."


@dataclass(frozen=True, slots=True)
class ArrivalJob:
    """Completes the node of the task that has the program's name.

    Attributes:
        template: of the job id; its components are columns of the schedule's key, or those of `formats`.
        formats: how the time of a tick becomes the values of all components, as of `strftime`; none for events.
        zone: of the wall clock of that time.
        back: how much earlier the time of the job id is than the tick, on the wall clock.
    """

    template: JobTemplate
    formats: Mapping[str, str] = field(default_factory=dict[str, str])
    zone: str = "UTC"
    back: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        check_zone(self.zone, "$.zone")
        check_duration(self.back, "$.back", zero=True)
        for name, text in self.formats.items():
            if name not in self.template.components:
                raise InvalidDefinitionError(f"$.format.{name}", f"is no component of the template {self.template}")
            if not _FORMAT.fullmatch(text):
                raise InvalidDefinitionError(
                    f"$.format.{name}", f"may have %Y %m %d %H %M %S %j %G %V %u and other text, but is {text!r:.60}"
                )
        if self.formats and len(self.formats) < len(self.template.components):
            raise InvalidDefinitionError("$.format", f"does not give all components of the template {self.template}")
        if self.back and not self.formats:
            raise InvalidDefinitionError("$.back", "is of a time, and there is none")

    def job_id(self, arguments: Mapping[str, str], tick: datetime) -> str:
        """The job id of the node that a run with these arguments completes. `tick`: its logical time (UTC).

        Raises:
            InvalidError: the values do not fit the template, or one is missing.
        """
        if self.formats:
            moment = add_duration(tick.astimezone(zone_of(self.zone)).replace(tzinfo=UTC), -self.back)
            parts = [moment.strftime(self.formats[name]) for name in self.template.components]
        else:
            parts = [self._value(name, arguments) for name in self.template.components]
        found = self.template.job_id(parts)
        if self.template.parts(found) != tuple(parts):
            raise InvalidError("$", f"{dict(zip(self.template.components, parts, strict=True))} is no job id")
        return found

    def _value(self, name: str, arguments: Mapping[str, str]) -> str:
        """A day is written as job ids have it, whichever way the event writes it."""
        value = arguments.get(f"{_KEY}{name}", "")
        if self.template.kinds.get(name) is ComponentKind.DATE and isinstance(day := period(value, Grain.DAY), Period):
            return day.start.strftime(DAY)
        return value
