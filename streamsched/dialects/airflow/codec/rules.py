"""Trigger rules as `depends_on`: which ends of the tasks before a task let it run.

>>> depends_on("all_done", ["a", "b"])
{'task': ['a', 'b'], 'ends': ['complete', 'failed', 'skipped']}
>>> depends_on("one_failed", ["a", "b"])
{'any-1': {'task': ['a'], 'ends': ['failed']}, 'any-2': {'task': ['b'], 'ends': ['failed']}}
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

from streamsched.domain.graph.task import MOST_GROUPS

_SUCCESS: Final = "complete"
_FAILED: Final = "failed"
_SKIPPED: Final = "skipped"
_EVERY: Final = (_SUCCESS, _FAILED, _SKIPPED)
#: The ends that all tasks before must have.
_ALL: Final = {
    "all_success": (_SUCCESS,),
    "all_failed": (_FAILED,),
    "all_done": _EVERY,
    "all_skipped": (_SKIPPED,),
    "none_failed": (_SUCCESS, _SKIPPED),
    "none_skipped": (_SUCCESS, _FAILED),
}
#: The ends of which one task before must have one.
_ONE: Final = {"one_success": (_SUCCESS,), "one_failed": (_FAILED,), "one_done": (_SUCCESS, _FAILED)}
_MIN_ONE: Final = "none_failed_min_one_success"
ALWAYS: Final = "always"
#: Former names.
_RENAMED: Final = {"none_failed_or_skipped": _MIN_ONE, "dummy": ALWAYS}
DEFAULT: Final = "all_success"
#: What else a rule means here.
DIFFERENCES: Final = {"one_done": "one_done; a task whose parents failed counts as failed too"}


class RuleError(Exception):
    """A rule that a graph cannot express; the text says why."""


def rule_name(value: Any) -> str:
    """The rule of a keyword: a text, or a member of `TriggerRule` as its source.

    Raises:
        RuleError: it is none that is known.
    """
    name = str(value).rpartition(".")[2].lower() if value is not None else DEFAULT
    name = _RENAMED.get(name, name)
    if name not in (*_ALL, *_ONE, _MIN_ONE, ALWAYS):
        raise RuleError(f"trigger_rule {name[:40]} cannot be expressed here")
    return name


def depends_on(
    rule: str, parents: Sequence[str], *, taken: Container[str] = (), besides: Sequence[str] = ()
) -> dict[str, Any]:
    """The field of a task with these parents; at least one.

    Args:
        rule: of `rule_name`, but not `always`, which has no parents.
        taken: names that groups cannot have.
        besides: further parents, whose end of any kind is waited for.

    Raises:
        RuleError: there are too many parents for the rule.
    """
    extra = [_entry(besides, _EVERY)] if besides else []
    if rule in _ALL or len(parents) == 1:
        entry = _entry(parents, _ends_of(rule))
        return {_free_name("all", taken): [entry, *extra]} if extra else entry
    if len(parents) > MOST_GROUPS:
        raise RuleError(f"trigger_rule {rule} has {len(parents)} tasks before it, more than {MOST_GROUPS}")
    found: dict[str, Any] = {}
    for number, parent in enumerate(parents, 1):
        others = [each for each in parents if each != parent]
        rest = [_entry(others, _ALL["none_failed"])] if rule == _MIN_ONE else []
        entries = [_entry([parent], _ends_of(rule)), *rest, *extra]
        found[_free_name(f"any-{number}", taken)] = entries[0] if len(entries) == 1 else entries
    return found


def _ends_of(rule: str) -> tuple[str, ...]:
    return _ALL.get(rule) or _ONE.get(rule) or (_SUCCESS,)


def _entry(parents: Sequence[str], ends: Sequence[str]) -> dict[str, Any]:
    return {"task": list(parents), "ends": list(ends)}


def _free_name(wanted: str, taken: Container[str]) -> str:
    while wanted in taken:
        wanted = f"{wanted}-of"
    return wanted
