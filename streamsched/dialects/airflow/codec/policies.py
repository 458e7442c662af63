"""Keywords that every task may have: what of them its schedule carries.

`NOTIFICATIONS` has those that send something to people but for mail (`airflow.mail`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from streamsched.dialects.airflow.codec.source.dag_task import DagTask
from streamsched.dialects.airflow.codec.source.keywords import Keywords
from streamsched.dialects.airflow.codec.source.literal import UnreadableError
from streamsched.dialects.airflow.codec.source.order import TaskOrder
from streamsched.domain.constraints.pool import HIGHEST
from streamsched.domain.limits import MOST_SLOTS
from streamsched.domain.schedules.retry import MOST_ATTEMPTS
from streamsched.domain.time.duration import duration_text

#: Keywords that send something to people, of tasks and of DAGs.
NOTIFICATIONS: Final = {
    "sla": "`deadlines` of a schedule start a program, and `onFailure` mails them; or say `app.expect(…)`",
    "sla_miss_callback": "is Python that Airflow calls; `deadlines` of a schedule start a program",
    **dict.fromkeys(
        (
            "on_failure_callback",
            "on_success_callback",
            "on_retry_callback",
            "on_execute_callback",
            "on_skipped_callback",
        ),
        "is Python that Airflow calls; `onFailure` of the app, or `program(…, 'failed')`, starts a program",
    ),
}
#: Values that ask for nothing.
_OFF: Final[tuple[object, ...]] = (None, False, [], "", {})
#: Keywords that are only described; they go into the description.
_DESCRIBED: Final = ("doc", "doc_md", "doc_rst", "doc_json", "doc_yaml", "owner", "task_display_name")
#: Keywords without counterpart, and what it takes instead. With the value in front nothing is asked for.
_REFUSED: Final[Mapping[str, tuple[Any, str]]] = {
    "depends_on_past": (False, "a task does not wait for itself of the run before"),
    "wait_for_downstream": (False, "a task does not wait for the tasks after it of the run before"),
    "ignore_first_depends_on_past": (None, "belongs to depends_on_past"),
    "wait_for_past_depends_before_skipping": (False, "belongs to depends_on_past"),
    "end_date": (None, "a schedule has no end: `schedule disable` it then"),
    "queue": ("default", "all launchers run all programs of a namespace"),
    "executor": (None, "all launchers run all programs of a namespace"),
    "executor_config": (None, "belongs to an executor of Airflow"),
    "run_as_user": (None, "users of the machine are set for a namespace: STREAMSCHED_RUN_AS"),
    "resources": (None, "sizes of Spark programs are `conf`; a constraint LOAD waits for room"),
    "inlets": (None, "there is no lineage; `partitions(…)` waits for data"),
    "outlets": (None, "a program says itself what it wrote, by `PartitionedFileSet.write` or an event"),
    "pre_execute": (None, "is Python that Airflow calls; make it a task before this one"),
    "post_execute": (None, "is Python that Airflow calls; make it a task after this one"),
    "max_active_tis_per_dagrun": (None, "tasks are limited over all runs: max_active_tis_per_dag"),
}
_NOTHING_HERE: Final = {
    "dag": "is the app",
    "task_group": "is in the name",
    "map_index_template": "elements are numbered",
    "logger_name": "the log is that of the run",
    "provide_context": "belongs to a function of Python, which is a placeholder",
    "multiple_outputs": "results are not passed between programs; the function is a placeholder",
    "show_return_value_in_logs": "belongs to a function of Python, which is a placeholder",
}
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PoolSizes:
    """The pools that tasks name.

    Attributes:
        sizes: their slots, as they were given.
        weighted: those of which a task takes several slots: groups here, which have weights and no priority.
        weights: the priority weight of each task as its weight rule gives it, by name.
    """

    sizes: Mapping[str, int]
    weighted: frozenset[str]
    weights: Mapping[str, int]


@dataclass
class TaskPolicies:
    """Fields of the schedule of a task."""

    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    constraints: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def as_json(self) -> dict[str, Any]:
        """The fields; empty ones are left out."""
        return {**self.fields, **({"constraints": self.constraints} if self.constraints else {})}


def policies_of(task: DagTask, pools: PoolSizes) -> TaskPolicies:
    """What the schedule of a task carries. Says of each keyword what became of it."""
    found = TaskPolicies()
    keywords = task.keywords
    for name in list(keywords.names()):
        try:
            keywords.value(name)
        except UnreadableError as exc:
            if name in ("retries", "retry_delay", "execution_timeout", "pool", "pool_slots", "priority_weight"):
                keywords.refuse(name, exc.text)
    values = keywords.values()
    _describe(keywords, values, found)
    _refuse(keywords, values)
    _retry(keywords, values, found)
    _pool(task, values, found, pools)
    _limits(keywords, values, found)
    return found


def _describe(keywords: Keywords, values: Mapping[str, Any], found: TaskPolicies) -> None:
    texts: list[str] = []
    for name in _DESCRIBED:
        value = values.get(name)
        if isinstance(value, str) and value.strip():
            label = "" if name.startswith("doc") else f"{name.replace('task_display_', '')}: "
            texts.append(f"{label}{' '.join(value.split())[:500]}")
            keywords.carry(name, "is in the description")
    if texts:
        found.fields["description"] = "; ".join(texts)


def _refuse(keywords: Keywords, values: Mapping[str, Any]) -> None:
    for name, text in NOTIFICATIONS.items():
        if name in values and values[name] in _OFF:
            keywords.carry(name, "nothing is sent")
        else:
            keywords.refuse(name, text)
    for name, (off, text) in _REFUSED.items():
        if name in values and (values[name] in _OFF or values[name] == off):
            keywords.carry(name, "asks for nothing")
        else:
            keywords.refuse(name, text)
    for name, text in _NOTHING_HERE.items():
        keywords.change(name, text)
    if "do_xcom_push" in values and values["do_xcom_push"] is False:
        keywords.carry("do_xcom_push", "results are not passed between programs")
    else:
        keywords.refuse("do_xcom_push", "results are not passed between programs: write them to a place that both know")
    keywords.change("start_date", "runs begin with the deployment; `backfill` makes earlier ones")


def _retry(keywords: Keywords, values: Mapping[str, Any], found: TaskPolicies) -> None:
    retries = values.get("retries")
    whole = isinstance(retries, int) and not isinstance(retries, bool)
    delay = _duration(values.get("retry_delay", timedelta(minutes=5)))
    longest = _duration(values.get("max_retry_delay", _DAY))
    if whole and retries and delay is not None and longest is not None:
        growing = bool(values.get("retry_exponential_backoff"))
        attempts = min(retries + 1, MOST_ATTEMPTS)
        most = max(min(longest, _DAY), delay) if growing else delay
        found.fields["retry"] = {"attempts": attempts, "delay": duration_text(delay), "longest": duration_text(most)}
        if attempts <= retries:
            keywords.refuse("retries", f"there are {MOST_ATTEMPTS - 1} at most, which the schedule has")
        keywords.carry("retries", f"{attempts} runs at most")
        for name in ("retry_delay", "retry_exponential_backoff"):
            keywords.carry(name, f"{duration_text(delay)} before a retry{', then longer' if growing else ''}")
        keywords.carry("max_retry_delay", f"{duration_text(most)} at most")
    elif whole and not retries:
        for name in ("retries", "retry_delay", "retry_exponential_backoff", "max_retry_delay"):
            keywords.carry(name, "there are no retries")
    elif retries is None and "retries" not in keywords:
        for name in ("retry_delay", "retry_exponential_backoff", "max_retry_delay"):
            keywords.carry(name, "there are no retries")
    for name in ("retries", "retry_delay", "retry_exponential_backoff", "max_retry_delay"):
        if name in values and "retry" not in found.fields and retries != 0:
            keywords.refuse(name, "is no number or duration that can be read")


def _limits(keywords: Keywords, values: Mapping[str, Any], found: TaskPolicies) -> None:
    longest = _duration(values.get("execution_timeout"))
    if longest is not None and longest > timedelta(0):
        found.fields["maxDuration"] = duration_text(longest)
        keywords.carry("execution_timeout", f"a run longer than {duration_text(longest)} is ended as failed")
    elif values.get("execution_timeout", "") is None:
        keywords.carry("execution_timeout", "there is no limit")
    for name in ("max_active_tis_per_dag", "task_concurrency"):
        most = values.get(name)
        if isinstance(most, int) and 0 < most <= MOST_SLOTS:
            found.constraints.append({"type": "CONCURRENCY", "maxConcurrency": most, "waitUntilMet": True})
            keywords.carry(name, f"{most} runs at a time")


def _pool(task: DagTask, values: Mapping[str, Any], found: TaskPolicies, pools: PoolSizes) -> None:
    keywords, name, slots = task.keywords, values.get("pool"), values.get("pool_slots", 1)
    whole = isinstance(slots, int) and 0 < slots <= MOST_SLOTS
    size = pools.sizes.get(name) if isinstance(name, str) else None
    if "pool" not in keywords or ("pool" in values and name is None):
        keywords.carry("pool", "there is none")
        for each in ("pool_slots", "priority_weight", "weight_rule"):
            keywords.refuse(each, "counts in a pool only, and the task names none")
        return
    if size is None or not whole or slots > size:
        lacking = f"how many slots has pool {name}? give `--pool {name}=SLOTS`" if size is None else "has other slots"
        for each in ("pool", "pool_slots", "priority_weight", "weight_rule"):
            keywords.refuse(each, lacking if isinstance(name, str) else "is known only when the file is executed")
        return
    if name in pools.weighted:
        found.constraints.append({"type": "GROUP", "group": name, "limit": size, "weight": slots, "waitUntilMet": True})
        keywords.carry("pool", f"group {name} with {size} slots")
        keywords.carry("pool_slots", f"{slots} slots of the group")
        for each in ("priority_weight", "weight_rule"):
            keywords.refuse(each, "a group, which the pool is because tasks take several slots, has no priority")
        return
    weight = pools.weights.get(task.name, 0)
    priority = max(min(weight, HIGHEST), -HIGHEST)
    found.constraints.append({"type": "POOL", "pool": name, "size": size, "priority": priority, "waitUntilMet": True})
    keywords.carry("pool", f"pool {name} with {size} slots")
    keywords.carry("pool_slots", "one slot")
    if weight != priority:
        keywords.change("priority_weight", f"priority {priority}, the limit here, for {weight}")
    keywords.carry("priority_weight", f"priority {priority} in the pool")
    keywords.carry("weight_rule", "is in the priority")


def _duration(value: Any) -> timedelta | None:
    if isinstance(value, timedelta) and value >= timedelta(0):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10**9:
        return timedelta(seconds=value)
    return None


def weighted_pools(tasks: Mapping[str, DagTask]) -> frozenset[str]:
    """The pools of which a task takes several slots."""
    found = set[str]()
    for task in tasks.values():
        values = task.keywords.values()
        slots = values.get("pool_slots")
        if isinstance(slots, int) and slots > 1 and isinstance(values.get("pool"), str):
            found.add(values["pool"])
    return frozenset(found)


def priority_weights(tasks: Mapping[str, DagTask], order: TaskOrder) -> dict[str, int]:
    """The weight of each task with a pool: with those of all tasks below it (`downstream`, the default), above it
    (`upstream`), or alone (`absolute`).
    """
    own = {name: _weight(task) for name, task in tasks.items()}
    found: dict[str, int] = {}
    for name, task in tasks.items():
        values = task.keywords.values()
        if values.get("pool") is None:
            continue
        match str(values.get("weight_rule") or "downstream").rpartition(".")[2].lower():
            case "absolute":
                extra = 0
            case "upstream":
                extra = order.total(order.tasks_above(name), own)
            case _:
                extra = order.total(order.tasks_below(name), own)
        found[name] = own[name] + extra
    return found


def _weight(task: DagTask) -> int:
    value = task.keywords.values().get("priority_weight", 1)
    return value if isinstance(value, int) and abs(value) < 10**9 else 1
