"""Times as people read them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from markupsafe import Markup

_UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def duration_words(span: timedelta) -> str:
    """At most two units: `3 min 40 s`, `2 h`, `1 d 3 h`; below a second `0.4 s`."""
    seconds = abs(span.total_seconds())
    if seconds < 1:
        return "under 0.1 s" if seconds < 0.1 else f"{seconds:.1f} s"
    whole = round(seconds)
    for index, (unit, size) in enumerate(_UNITS):
        if whole >= size:
            text = f"{whole // size} {unit}"
            if index + 1 < len(_UNITS):
                lesser, lesser_size = _UNITS[index + 1]
                rest = whole % size // lesser_size
                text += f" {rest} {lesser}" if rest else ""
            return text
    return "0 s"


def coarse_words(span: timedelta) -> str:
    """One unit: `12 min`, `3 h`, `2 d`."""
    whole = round(abs(span.total_seconds()))
    for unit, size in _UNITS:
        if whole >= size:
            return f"{whole // size} {unit}"
    return "0 s"


@dataclass(frozen=True, slots=True)
class TimeTexts:
    """Texts of instants for a reader at `now` in `zone`."""

    now: datetime
    zone: tzinfo

    @property
    def zone_name(self) -> str:
        return "UTC" if self.zone is UTC else str(self.zone)

    def full_text(self, at: datetime) -> str:
        """`2026-03-01 14:02:07 Europe/Berlin`."""
        return f"{at.astimezone(self.zone):%Y-%m-%d %H:%M:%S} {self.zone_name}"

    def short_text(self, at: datetime) -> str:
        """The time of a day within 20 hours, the weekday within six days, else the date."""
        local, distance = at.astimezone(self.zone), abs(at - self.now)
        if distance < timedelta(hours=20):
            return f"{local:%H:%M}"
        if distance < timedelta(days=6):
            return f"{local:%a %H:%M}"
        return f"{local:%Y-%m-%d %H:%M}"

    def distance(self, at: datetime) -> str:
        """`12 min`, the distance from now."""
        return coarse_words(self.now - at)

    def relative_text(self, at: datetime | None) -> Markup:
        """`12 min ago` or `in 12 min`, with the instant on hover; a dash for None."""
        if at is None:
            return Markup("–")
        text = f"{self.distance(at)} ago" if at <= self.now else f"in {self.distance(at)}"
        return self._time(at, text, "ago")

    def clock(self, at: datetime | None) -> Markup:
        """The short time with the full one on hover; a dash for None."""
        return Markup("–") if at is None else self._time(at, self.short_text(at), "clock")

    def took(self, start: datetime | None, end: datetime | None) -> str:
        """How long it took, or has taken so far; a dash before it started."""
        return "–" if start is None else duration_words((end or self.now) - start)

    def _time(self, at: datetime, text: str, kind: str) -> Markup:
        instant = at.astimezone(UTC).isoformat().replace("+00:00", "Z")
        return Markup('<time datetime="{}" title="{}" data-as="{}">{}</time>').format(
            instant, self.full_text(at), kind, text
        )
