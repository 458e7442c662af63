"""Job ids by the values of their components: lists, ranges, and all that a task fills in.

>>> from streamsched.domain.graph.job_template import JobTemplate
>>> task = TaskTemplate("report", JobTemplate.parse("{date}_{client}"), autofill={"client": ("a", "b")})
>>> select_job_ids(task, {"date": span("20140131..20140201"), "client": everything(task, "client")})
('20140131_a', '20140131_b', '20140201_a', '20140201_b')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import product
from math import prod

from streamsched.domain.errors import InvalidError
from streamsched.domain.graph.task import MOST_VALUES, TaskTemplate
from streamsched.domain.limits import abridge, check_most


def select_job_ids(task: TaskTemplate, values: Mapping[str, Sequence[str]], path: str = "$.values") -> tuple[str, ...]:
    """The job ids of all combinations, in order.

    Raises:
        InvalidError: a component has no values or is not one of the task, a value does not fit, or there are too many.
    """
    for name in values:
        if name not in task.template.components:
            raise InvalidError(f"{path}.{name}", f"is no component of the template {task.template}")
    for name in task.template.components:
        if not values.get(name):
            raise InvalidError(path, f"has no values of '{name}' of the template {task.template}")
    check_most(prod(len(each) for each in values.values()), MOST_VALUES, path, "job ids")
    found = (task.template.job_id(parts) for parts in product(*(values[name] for name in task.template.components)))
    return tuple(dict.fromkeys(task.template.canonical(each, path) for each in found))


def everything(task: TaskTemplate, component: str, path: str = "$.all") -> tuple[str, ...]:
    """All values of a component by the task's `autofill_values`.

    Raises:
        InvalidError: there are none.
    """
    found = task.autofill.get(component)
    if not found:
        raise InvalidError(path, f"task '{task.name}' has no autofill_values of '{component}'")
    return found


def span(text: str, path: str = "$.ranges") -> tuple[str, ...]:
    """The values of `20140101..20140131`, days or whole numbers, both ends included.

    Raises:
        InvalidError: it is no such range, or has too many values.
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise InvalidError(path, f"must be FIRST..LAST, as 20140101..20140131, but is {abridge(text)}")
    if not (first.isdecimal() and last.isdecimal() and first.isascii() and last.isascii()):
        raise InvalidError(path, f"must be from a day or whole number to another but is {abridge(text)}")
    days = [_day(first), _day(last)]
    if days[0] is not None and days[1] is not None:
        count = (days[1] - days[0]).days + 1
        _check(count, text, path)
        return tuple((days[0] + timedelta(days=number)).strftime("%Y%m%d") for number in range(count))
    check_most(max(len(first), len(last)), 18, path, "digits")
    count = int(last) - int(first) + 1
    _check(count, text, path)
    return tuple(str(int(first) + number) for number in range(count))


def _check(count: int, text: str, path: str) -> None:
    if count < 1:
        raise InvalidError(path, f"ends before it begins: {abridge(text)}")
    check_most(count, MOST_VALUES, path, "values")


def _day(text: str) -> date | None:
    try:
        return date(int(text[:4]), int(text[4:6]), int(text[6:])) if len(text) == 8 else None
    except ValueError:
        return None
