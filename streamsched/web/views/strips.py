"""Strips of runs and the time line of coming ticks, as SVG without scripts and styles. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from markupsafe import Markup

from streamsched.web.views.states import StateWord
from streamsched.web.views.times import duration_words

#: Most bars of a strip.
BARS: Final = 14
_STEP, _WIDTH, _HEIGHT = 9, 6, 24
_LEAST: Final = 7.0
#: A slot of the time line of the next 24 hours, and how many there are.
SLOT: Final = timedelta(minutes=30)
SLOTS: Final = 48


class StripBar(NamedTuple):
    """A job of a strip; `took` None: it has no run that began."""

    job: str
    state: StateWord
    took: timedelta | None


def strip(bars: Sequence[StripBar]) -> Markup:
    """One bar for each job, oldest first, its height the duration of its run. The text twin counts the states."""
    shown = bars[-BARS:]
    if not shown:
        return Markup('<span class="dim">no runs yet</span>')
    longest = max((bar.took for bar in shown if bar.took), default=timedelta(seconds=1)) or timedelta(seconds=1)
    width = BARS * _STEP - (_STEP - _WIDTH)
    parts = [Markup('<rect class="fill-line" x="0" y="{}" width="{}" height="1"></rect>').format(_HEIGHT - 1, width)]
    for index, bar in enumerate(shown):
        share = 0.0 if bar.took is None else bar.took / longest
        height = _LEAST + (_HEIGHT - _LEAST) * max(0.0, min(1.0, share))
        took = "" if bar.took is None else f", {duration_words(bar.took)}"
        rect = Markup('<rect class="{}" x="{}" y="{:.1f}" width="{}" height="{:.1f}" rx="1.5"><title>{}</title></rect>')
        drawn = rect.format(
            f"fill-{bar.state.tone}", index * _STEP, _HEIGHT - height, _WIDTH, height, f"{bar.state.word}{took}"
        )
        parts.append(drawn)
    counted = Counter(bar.state.word for bar in shown)
    label = f"The last {len(shown)}: " + ", ".join(f"{count} {word}" for word, count in counted.most_common())
    return Markup('<svg class="strip" width="{}" height="{}" role="img" aria-label="{}">{}</svg>').format(
        width, _HEIGHT, label, Markup("").join(parts)
    )


def tick_slots(ticks: Sequence[datetime], now: datetime, *, cut: bool) -> frozenset[int]:
    """The half hours of a time line in which a schedule ticks. `cut`: there are more ticks than these, so that it ticks
    in all half hours after them.
    """
    slots = {int((at - now) / SLOT) for at in ticks}
    last = max(slots, default=SLOTS)
    return frozenset(slot for slot in (slots | set(range(last, SLOTS)) if cut else slots) if 0 <= slot < SLOTS)


def time_line(schedules: Sequence[frozenset[int]], now: datetime) -> Markup:
    """How many schedules tick in each half hour from now on."""
    counted = Counter(slot for slots in schedules for slot in slots)
    most = max(counted.values(), default=1)
    parts = [Markup('<rect class="fill-axis" x="0" y="39" width="480" height="1"></rect>')]
    for index, count in sorted(counted.items()):
        height = 6 + 32 * count / most
        begin = now + SLOT * index
        title = f"{count} {'schedule ticks' if count == 1 else 'schedules tick'} in the half hour from {begin:%H:%M}Z"
        parts.append(
            Markup(
                '<rect class="fill-run" x="{}" y="{:.1f}" width="8" height="{:.1f}" rx="1"><title>{}</title></rect>'
            ).format(index * 10 + 1, 39 - height, height, title)
        )
    label = f"{len(schedules)} schedules tick in the next 24 hours" if schedules else "no tick in the next 24 hours"
    return Markup(
        '<svg class="timeline" viewBox="0 0 480 40" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(label, Markup("").join(parts))


def bar(have: int, need: int, *, plain: bool = False) -> Markup:
    """A bar of progress; `plain`: a full one is no success."""
    share = 1.0 if need <= 0 else max(0.0, min(1.0, have / need))
    tone = ("wait" if plain else "ok") if have >= need else "run"
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="fill-line" width="100" height="8"></rect>'
        '<rect class="fill-{}" width="{:.1f}" height="8"></rect></svg>'
    ).format(f"{have} of {need}", tone, 100 * share)
