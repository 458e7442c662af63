"""Differences of definitions in the definition's own words: `delay 1h → 2h`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from streamsched.cli.naming import without_default
from streamsched.domain.errors import StreamschedError
from streamsched.domain.time.duration import units_text

#: Members of CDAP's constraints that are milliseconds, and the words for them in definitions.
_DURATIONS: Final = {"millisAfterTrigger": "delay", "millisSinceLastRun": "interval", "perMillis": "per"}
_WITHOUT: Final = object()


def difference_lines(field: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a field of a plan, `{"field": …, "before": …, "after": …}`.

    >>> list(difference_lines({"field": "timeout", "before": "1h", "after": "2h"}))
    ['timeout: 1h → 2h']
    """
    before: Any = field["before"]
    after: Any = field["after"]
    if field["field"] == "when":
        before, after = without_default(before or ""), without_default(after or "")
    changes = _constraints if field["field"] == "constraints" else _changes
    for each in changes(before, after):
        yield f"{field['field']}: {each}"


def _changes(before: Any, after: Any) -> Iterator[str]:
    """What differs: of objects of the same type their members."""
    if not (isinstance(before, dict) and isinstance(after, dict) and before.get("type") == after.get("type")):
        yield f"{_text(before)} → {_text(after)}"
        return
    for name in {**before, **after}:
        was, now = before.get(name, _WITHOUT), after.get(name, _WITHOUT)
        if was != now:
            yield from (f"{name} {each}" for each in _changes(was, now))


def _constraints(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What differs in constraints: those of the same type one after another."""
    gone = [_in_words(each) for each in before if each not in after]
    new = [_in_words(each) for each in after if each not in before]
    if not gone and not new:
        yield "in another order"
    for kind in dict.fromkeys(each["type"] for each in (*gone, *new)):
        word = kind.lower().replace("_", " ")
        for was, now in zip_longest(*([each for each in some if each["type"] == kind] for some in (gone, new))):
            if was is None:
                yield f"also {_constraint(now)}"
            elif now is None:
                yield f"no longer {_constraint(was)}"
            else:
                yield from (each if each.startswith(f"{word} ") else f"{word} {each}" for each in _changes(was, now))


def _in_words(constraint: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _DURATIONS.get(name, name): units_text(value, "ms") if name in _DURATIONS else value
        for name, value in constraint.items()
    }


def _constraint(constraint: object) -> str:
    """The text of a constraint; its JSON if this version does not know it."""
    from streamsched.codec.schedules import constraint as codec

    try:
        return str(codec.from_json(constraint))
    except StreamschedError:
        return json.dumps(constraint, ensure_ascii=False)


def _text(value: object) -> str:
    if value is None or value is _WITHOUT:
        return "none"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
