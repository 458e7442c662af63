"""Arguments of a node's run that are made from a day or an instant of its job id.

>>> from streamsched.domain.graph.job_template import ComponentKind, JobTemplate
>>> template = JobTemplate.parse("{date}", kinds={"date": ComponentKind.DATE})
>>> TimeArgument("date", "%Y-%m-%d", back=timedelta(days=1)).value(template, ("20240301",))
'2024-02-29'
>>> TimeArgument("date", "%d %H:%M", tick=NearTick("30 6 * * 1-5", "Europe/Berlin")).value(template, ("20240304",))
'01 05:30'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.graph.job_template import ComponentKind, JobTemplate, moment_of
from streamsched.domain.limits import abridge, add_duration, check_duration, clamp_instant
from streamsched.domain.time.cron_unix import parse_unix
from streamsched.domain.time.cron_walk import Walk, usual_passes
from streamsched.domain.time.zone import check_zone, zone_of

#: Directives that mean the same on every system, without names of days and months.
_FORMAT: Final = re.compile(r"(?:%[YmdHMSjGVu%]|[^%])+")
_LONGEST: Final = 200
_CACHED: Final = 256


@dataclass(frozen=True, slots=True)
class NearTick:
    """The last tick of a cron expression before an instant; with `after` the first one after it."""

    expression: str
    zone: str = "UTC"
    after: bool = False

    def __post_init__(self) -> None:
        check_zone(self.zone, "$.timeZone")
        try:
            fields = parse_unix(self.expression)
        except InvalidDefinitionError as exc:
            raise InvalidDefinitionError("$.cronExpression", exc.reason) from exc
        if fields.days.day_from(date(1970, 1, 1)) is None:
            raise InvalidDefinitionError("$.cronExpression", f"'{self.expression}' never matches")

    def tick_near(self, moment: datetime) -> datetime | None:
        """The tick (UTC); None when there is none."""
        walk = _walk(self.expression, self.zone)
        return walk.tick_after(moment) if self.after else walk.tick_before(moment)


@dataclass(frozen=True, slots=True)
class TimeArgument:
    """A text made from the time of a component.

    Attributes:
        component: one of kind `date` or `time`; of a day its first instant in UTC.
        format: of the text, as of `strftime`.
        zone: of the wall clock that the text shows.
        tick: what is shown is the tick beside the time.
        back, ahead: how much earlier, or later, the shown time is, on the wall clock.
    """

    component: str
    format: str
    zone: str = "UTC"
    tick: NearTick | None = None
    back: timedelta = timedelta(0)
    ahead: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if len(self.format) > _LONGEST or not _FORMAT.fullmatch(self.format):
            raise InvalidDefinitionError(
                "$.format",
                f"may have %Y %m %d %H %M %S %j %G %V %u and other text, {_LONGEST} characters at most, but is "
                f"{abridge(self.format)}",
            )
        check_zone(self.zone, "$.timeZone")
        check_duration(self.back, "$.back", zero=True)
        check_duration(self.ahead, "$.ahead", zero=True)

    def check(self, template: JobTemplate, path: str) -> None:
        """Raises:
        InvalidDefinitionError: the template has no such component, or it is no time.
        """
        if self.component not in template.components:
            raise InvalidDefinitionError(path, f"is of '{self.component}', no component of the template {template}")
        if template.kinds.get(self.component) not in (ComponentKind.DATE, ComponentKind.TIME):
            raise InvalidDefinitionError(path, f"is of '{self.component}', which must be of kind date or time")

    def value(self, template: JobTemplate, parts: Sequence[str]) -> str:
        """The text for a job id with these parts.

        Raises:
            InvalidError: the part is no time, or there is no tick beside it.
        """
        part = parts[template.components.index(self.component)]
        moment = moment_of(part, template.kinds.get(self.component, ComponentKind.TEXT))
        if moment is None:
            raise InvalidError("$", f"'{self.component}' is {abridge(part)}, which is no time")
        near = moment if self.tick is None else self.tick.tick_near(moment)
        if near is None:
            raise InvalidError("$", f"there is no tick of '{self.tick.expression if self.tick else ''}' beside {part}")
        wall = clamp_instant(near).astimezone(zone_of(self.zone)).replace(tzinfo=UTC)
        return add_duration(add_duration(wall, -self.back), self.ahead).strftime(self.format)


@lru_cache(_CACHED)
def _walk(expression: str, zone: str) -> Walk:
    fields = parse_unix(expression)
    return Walk(fields.times, fields.days, zone_of(zone), usual_passes(fields))
