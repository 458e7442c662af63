"""Ticks that are to come, for display only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.by_hand import ByHand, keep_json
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import any_text
from streamsched.domain.ticks.forecast import Forecast, ForecastTick, Note, Omission
from streamsched.wire.schedules import PROGRAM, SCHEDULE, STATE

_LEAF: Final = About("cron:0 4 * * *")
_WHEN: Final = About("at 04:00")
_LOCAL: Final = ByHand(keep_json, datetime.isoformat, any_text("2026-03-01T07:00:00+01:00"))
_DAY: Final = ByHand(keep_json, date.isoformat, any_text("2026-03-29"))
_NOTE: Final = JsonShape(Note, about={"text": About("02:30 does not exist on that day")})
_TICK: Final = JsonShape(
    ForecastTick,
    about={"due_at": About(name="at"), "local": About(shape=_LOCAL), "notes": About(shape=_NOTE)},
)
_OMITTED: Final = JsonShape(Omission, about={"day": About(shape=_DAY), "note": About(spread=True, shape=_NOTE)})
LEAF_TICKS: Final = JsonShape(
    Forecast, about={"zone": About("UTC"), "ticks": About(shape=_TICK), "omitted": About(shape=_OMITTED)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafForecast:
    """The next ticks of a time leaf."""

    leaf: Annotated[str, _LEAF]
    when: Annotated[str, _WHEN]
    forecast: Annotated[Forecast, About(spread=True, shape=LEAF_TICKS)]


LEAF: Final = JsonShape(LeafForecast)
_LEAVES: Final = About(shape=LEAF)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerForecast:
    """The next ticks of a trigger, by leaf."""

    leaves: Annotated[Sequence[LeafForecast], _LEAVES]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinceLastRunState:
    """A leaf that holds some time after a run. `at`: at the earliest; `active`: a job waits or a run is active."""

    leaf: str
    when: str
    after: Annotated[str, About("4h")]
    at: datetime | None
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleForecast:
    """The next ticks of a schedule."""

    schedule: Annotated[str, About(SCHEDULE.example, of="definition.ref")]
    enabled: bool
    state: Annotated[str, About(schema=STATE.schema, of="status")]
    leaves: Annotated[Sequence[LeafForecast], _LEAVES]
    since_last_run: Annotated[Sequence[SinceLastRunState], About(shape=JsonShape(SinceLastRunState))]


@dataclass(frozen=True, slots=True, kw_only=True)
class TickState:
    """A tick of a leaf of a schedule."""

    schedule: Annotated[str, About(SCHEDULE.example, of="schedule.definition.ref")]
    program: Annotated[str, About(PROGRAM.example, of="schedule.definition.program")]
    state: Annotated[str, About(schema=STATE.schema, of="schedule.status")]
    leaf: Annotated[str, _LEAF]
    when: Annotated[str, _WHEN]
    at: datetime
    fires_at: datetime


TICK: Final = JsonShape(TickState)
TICKS: Final = TICK.whole_list("ticks", "TickList")
FORECAST: Final = JsonShape(TriggerForecast, "Forecast")
SCHEDULE_FORECAST: Final = JsonShape(ScheduleForecast)
