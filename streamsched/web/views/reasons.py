"""Why a schedule is not running, in a sentence with links. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.pause import PauseMode
from streamsched.launcher.why import Why
from streamsched.store.catalog.records import ScheduleStatus
from streamsched.store.jobs.job_record import JobRecord
from streamsched.web.views.names import add_links, job_href, run_href, schedule_href, short_name
from streamsched.web.views.states import StateWord
from streamsched.web.views.times import TimeTexts
from streamsched.web.views.trigger_tree import TreeNode, open_leaves

_ACTIVE = frozenset({RunState.PENDING, RunState.STARTING, RunState.RUNNING, RunState.SUSPENDED})


@dataclass(frozen=True, slots=True)
class ReasonClause:
    """One constraint of a waiting job. `holders`: each a sentence about a run it waits for."""

    holds: bool
    needs: str
    text: Markup
    holders: tuple[Markup, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """The answer.

    Attributes:
        state: the word beside the title of the page.
        sentence: the answer.
        lines: further sentences: what it waits for, when that can end.
        clauses: of the waiting job it is about.
        job: that job; None when no job waits.
    """

    state: StateWord
    sentence: Markup
    lines: tuple[Markup, ...] = ()
    clauses: tuple[ReasonClause, ...] = ()
    job: str | None = None


def reason_of(
    status: ScheduleStatus, tree: TreeNode, jobs: Sequence[JobRecord], why: Why | None, times: TimeTexts
) -> Reason:
    """Why the schedule is not running, or that it is. `jobs`: newest first; `why`: of its oldest waiting job."""
    record = status.record
    if status.halt is not None:
        cause = add_links(status.halt.reason, {})
        text = Markup("It is <b>in error</b> and folds nothing: {}").format(cause)
        return Reason(StateWord("bad", "in error"), text, (Markup("Change the schedule, or replay its signals."),))
    if record.is_disabled:
        return Reason(
            StateWord("off", "disabled"),
            Markup("It is <b>disabled</b> since {}: nothing counts, nothing starts.").format(
                times.clock(record.updated_at)
            ),
        )
    if record.pause is not None:
        return _pause_reason(status, why, times)
    if why is not None:
        return waiting_reason(why, times, subject=Markup("Job {}").format(_job_link(why.job)))
    running = [job for job in jobs if job.outcome is not None and job.outcome.state in _ACTIVE and job.runs]
    if running:
        run = Markup('<a class="mono" href="{}">{}</a>').format(
            run_href(running[0].runs[-1]), short_name(running[0].runs[-1])
        )
        began = running[0].outcome.started_at if running[0].outcome is not None else None
        since = Markup(", since {}").format(times.clock(began)) if began is not None else ""
        return Reason(StateWord("run", "running"), Markup("It <b>runs now</b>: {}{}.").format(run, since))
    return _incomplete_reason(status, tree, times)


def waiting_reason(why: Why, times: TimeTexts, *, subject: Markup) -> Reason:
    """Why a job waits. `subject`: how the sentence names it."""
    hrefs = _hrefs(why)
    lines: list[Markup] = []
    if why.earliest is not None:
        because = Markup(" ({})").format(add_links(why.earliest_because, hrefs)) if why.earliest_because else ""
        lines.append(Markup("Earliest start {}{}.").format(times.clock(why.earliest), because))
    if why.timeout:
        lines.append(Markup("{}.").format(add_links(_capital(why.timeout), hrefs)))
    lines += [Markup("{}.").format(add_links(_capital(each), hrefs)) for each in why.deadlines]
    between = " " if why.summary.startswith("it ") else ": "
    sentence = Markup("{}{}{}.").format(subject, between, add_links(why.summary.removeprefix("it "), hrefs))
    if why.since is not None:
        lines.insert(0, Markup("It has waited {}, since {}.").format(times.distance(why.since), times.clock(why.since)))
    clauses = tuple(
        ReasonClause(
            each.holds,
            each.needs,
            add_links(each.text, hrefs),
            tuple(
                Markup("{} is {} since {}{}").format(
                    Markup('<a class="mono" href="{}">{}</a>').format(run_href(held.run), short_name(held.run)),
                    held.state.lower(),
                    times.clock(held.since),
                    Markup(", of {}").format(
                        Markup('<a href="{}">{}</a>').format(schedule_href(held.schedule), held.schedule.name)
                    )
                    if held.schedule
                    else "",
                )
                for held in each.holders
            ),
        )
        for each in why.clauses
    )
    waits = times.distance(why.since) if why.since else ""
    return Reason(StateWord("wait", f"waiting {waits}".strip()), sentence, tuple(lines), clauses, why.job)


def _pause_reason(status: ScheduleStatus, why: Why | None, times: TimeTexts) -> Reason:
    record = status.record
    assert record.pause is not None
    note = Markup(": “{}”").format(record.pause.note) if record.pause.note else ""
    sentence = Markup("It is <b>paused</b> since {}{}.").format(times.clock(record.updated_at), note)
    meanwhile = {
        PauseMode.KEEP: "Events still count, and nothing starts.",
        PauseMode.DROP: "Events do not count, and nothing starts.",
        PauseMode.DRAIN: "Waiting jobs may still start; new events do not count.",
        PauseMode.BACKLOG: "Events make jobs, and each waits until it is resumed.",
    }[record.pause.mode]
    lines = [Markup(meanwhile)]
    if record.pause.until is not None:
        lines.append(
            Markup("It resumes by itself {} ({}).").format(
                times.relative_text(record.pause.until), times.clock(record.pause.until)
            )
        )
    if status.waiting_jobs:
        jobs = "1 job waits" if status.waiting_jobs == 1 else f"{status.waiting_jobs} jobs wait"
        lines.append(Markup("{} for the end of the pause.").format(jobs))
    return Reason(StateWord("wait", "paused"), sentence, tuple(lines), job=why.job if why else None)


def _incomplete_reason(status: ScheduleStatus, tree: TreeNode, times: TimeTexts) -> Reason:
    missing = [leaf for leaf in open_leaves(tree) if leaf.text]
    lines: list[Markup] = []
    if status.next_tick_at is not None:
        lines.append(
            Markup("The next tick is {} ({}).").format(
                times.relative_text(status.next_tick_at), times.clock(status.next_tick_at)
            )
        )
    if status.open_keys:
        keys = "1 key" if status.open_keys == 1 else f"{status.open_keys:,} keys"
        verb = "is open, and it is not" if status.open_keys == 1 else "are open, and none of them is"
        needs = Markup(" Each key needs {}.").format(
            Markup(" and ").join(Markup("{}").format(_needed_text(each)) for each in missing[:5])
        )
        text = Markup("<b>{}</b> {} complete.{}").format(keys, verb, needs if missing else "")
        return Reason(StateWord("ok", "enabled"), text, tuple(lines))
    if not missing:
        return Reason(StateWord("ok", "enabled"), Markup("It waits for its trigger."), tuple(lines))
    listed = Markup("; ").join(
        Markup("<b>{}</b> ({})").format(leaf.text, leaf.count_text)
        if leaf.need > 1
        else Markup("<b>{}</b>").format(leaf.text)
        for leaf in missing[:5]
    )
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    text = Markup("Its trigger is not complete. It waits for {}{}.").format(listed, more)
    return Reason(StateWord("ok", "enabled"), text, tuple(lines))


def _needed_text(leaf: TreeNode) -> str:
    """What a leaf needs, and of a roll-up how often."""
    said = leaf.need == 1 or str(leaf.need) in leaf.text.replace(",", "").split()
    return leaf.text if said else f"{leaf.text}, {leaf.need} of them"


def _hrefs(why: Why) -> Mapping[str, str]:
    found = {held.run: run_href(held.run) for clause in why.clauses for held in clause.holders}
    found |= {
        str(held.schedule): schedule_href(held.schedule) for c in why.clauses for held in c.holders if held.schedule
    }
    return found | {run: run_href(run) for run in why.runs}


def _job_link(job: str) -> Markup:
    return Markup('<a class="mono" href="{}">{}</a>').format(job_href(job), short_name(job))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
