"""Pages of jobs by the state that lists show, against a walk through all jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from streamsched.api.reads import job_list
from streamsched.api.reads.job_list import newest_jobs
from streamsched.catalog.paging import read_moment_cursor
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.store.jobs.job_record import JobRecord, RunOutcome
from streamsched.store.jobs.jobs import JobStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)
REF, PROGRAM = ScheduleRef("default", "app", "s"), ProgramRef("default", "app", "p")
_STATES = st.one_of(
    st.sampled_from([JobState.PENDING_CONSTRAINT, JobState.ABORTED]).map(lambda state: (state, None)),
    st.sampled_from([RunState.RUNNING, RunState.FAILED, RunState.COMPLETED]).map(lambda run: (JobState.LAUNCHED, run)),
    st.just((JobState.LAUNCHED, None)),
)


class Jobs:
    """As much of a store as the list asks for."""

    def __init__(self, states: Sequence[tuple[JobState, RunState | None]]) -> None:
        self.jobs = [
            JobRecord(
                *(f"{REF}.1.{n}", REF, 1, n, PROGRAM, state, "", NOW, NOW - timedelta(seconds=n), None, (), None, None),
                runs=(),
                outcome=None if run is None else RunOutcome(run, "", None, None),
            )
            for n, (state, run) in enumerate(states)
        ]

    async def list_recent(
        self, *, states: Sequence[JobState], limit: int, before: tuple[datetime, str] | None, **_: Any
    ) -> Sequence[JobRecord]:
        older = [each for each in self.jobs if before is None or (each.created_at, each.id) < before]
        return [each for each in older if not states or each.state in states][:limit]


def shown(job: JobRecord, states: Sequence[JobState | RunState]) -> bool:
    return not states or job.state in states or (job.outcome is not None and job.outcome.state in states)


@given(
    st.lists(_STATES, max_size=60),
    st.lists(st.sampled_from([*JobState, *RunState]), max_size=3, unique=True),
    st.integers(1, 7),
)
async def test_all_pages_together_are_the_jobs_in_these_states(
    jobs: list[tuple[JobState, RunState | None]], states: list[JobState | RunState], limit: int
) -> None:
    store = Jobs(jobs)
    found: list[str] = []
    after, pages = "", 0
    while pages == 0 or after:
        page = await newest_jobs(
            cast("JobStore", store),
            schedule=None,
            app=None,
            namespace=None,
            states=states,
            limit=limit,
            before=read_moment_cursor(after),
        )
        assert len(page.jobs) <= limit
        found += [each.id for each in page.jobs]
        after, pages = page.next, pages + 1

    assert found == [each.id for each in store.jobs if shown(each, states)]


async def test_a_page_examines_a_bounded_number_of_jobs() -> None:
    store = Jobs([(JobState.LAUNCHED, RunState.COMPLETED)] * 25_000)

    page = await newest_jobs(
        cast("JobStore", store),
        schedule=None,
        app=None,
        namespace=None,
        states=[RunState.FAILED],
        limit=5,
        before=None,
    )

    assert page.jobs == []
    assert page.next.endswith(f"~{store.jobs[job_list._EXAMINED - 1].id}")
