"""The quota of active runs of a namespace: what admits a job admits it only while its namespace has room. Pure.

It is no constraint of a schedule, so neither a command of an operator nor a timeout overrides it. The job waits, and is
woken by the end of a run of its namespace, as by a slot of a group.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from streamsched.domain.decisions.admission import ConstraintVerdict, Satisfied, WaitFor
from streamsched.domain.decisions.decision import Admit, Decision, DueJob, wait_beside_constraints
from streamsched.domain.decisions.names_in_reasons import names_text
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.quotas.quota import slots_name


def quota_verdict(namespace: str, resources: Resources) -> ConstraintVerdict | None:
    """Whether one more run of the namespace may start; None without a quota."""
    occupancy = resources.groups.get(slots_name(namespace))
    if occupancy is None or occupancy.limit is None:
        return None
    why = f"{occupancy.taken} of {occupancy.limit} runs of namespace {namespace} are active (quota {Quota.RUNS})"
    if occupancy.taken < occupancy.limit:
        return Satisfied(why)
    runs = tuple(slot.run for slot in occupancy.slots)
    return WaitFor((f"quota {Quota.RUNS} of {namespace}", *runs), why + (f": {names_text(runs)}" if runs else ""))


def within_quota(
    decision: Decision, due_job: DueJob, resources: Resources, timeout: datetime | None, now: datetime
) -> Decision:
    """The decision, where a job is admitted only with a slot of its namespace, which the run then takes. `timeout`:
    when its wait for constraints runs out (UTC), so that it is judged again then.
    """
    if not resources.groups or not isinstance(decision, Admit) or due_job.schedule is None:
        return decision
    namespace = due_job.schedule.program.namespace
    match quota_verdict(namespace, resources):
        case None:
            return decision
        case Satisfied():
            return replace(decision, slots=(*decision.slots, (slots_name(namespace), 1)))
        case verdict:
            waiting = wait_beside_constraints(due_job, due_job.schedule, verdict, timeout, now)
            return replace(waiting, groups=(slots_name(namespace),))
