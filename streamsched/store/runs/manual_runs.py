"""Runs without a job: started manually, or by a missed deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from streamsched.codec.schedules.schedule import program_from_json, program_to_json, schedule_from_json
from streamsched.domain.constraints.group import Group, Occupancy, groups_of_manual_run
from streamsched.domain.constraints.pool import Pool, PoolQueue, pools_of_manual_run, slots_name
from streamsched.domain.constraints.rate import RateScope, bucket_of
from streamsched.domain.decisions.admission import ConstraintInput, check_all
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.errors import ConflictError, QuotaExceededError
from streamsched.domain.jobs.job import ScheduleKey
from streamsched.domain.jobs.run import RunState, run_id
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.quotas.quota import slots_name as quota_slots
from streamsched.domain.schedules.preferences import with_preferences
from streamsched.domain.schedules.schedule import Schedule
from streamsched.store.catalog.history import record
from streamsched.store.catalog.preferences import preferences_of
from streamsched.store.connections import Connection
from streamsched.store.limits import groups, namespace_runs, rates
from streamsched.store.runs.rows import SQL
from streamsched.store.sql import fetch_value


async def make_run(
    connection: Connection,
    program: ProgramRef,
    definition: Any,
    run: str,
    arguments: Mapping[str, str],
    *,
    why: str,
    now: datetime,
    at_most: int | None = None,
    force: bool = False,
    over_quota: bool = False,
) -> None:
    """Stores a PENDING run of a locked program with this `definition`, and takes its slots and tokens. `arguments`
    override preferences of the namespace, and these the program's. `force` ignores the limits of its schedules,
    `over_quota` the quota of its namespace. Idempotent by the run's id.

    Raises:
        ConflictError: `at_most` runs are active, or a group or pool is full.
        QuotaExceededError: the namespace has as many active runs as its quota allows.
    """
    if await connection.fetchval(SQL["get"], run) is not None:
        return
    rows = await connection.fetch(SQL["schedules"], str(program))
    schedules = [schedule_from_json(row["definition"]) for row in rows]
    slots = groups_of_manual_run(group for each in schedules for group in each.groups)
    pools = pools_of_manual_run(each.pool for each in schedules)
    held = [*((each.name, each.weight) for each in slots), *((slots_name(each.name), 1) for each in pools)]
    if await namespace_runs.limit_of(connection, program.namespace) is not None:
        held.append((quota_slots(program.namespace), 1))
    occupancy = await groups.lock_and_read(connection, (name for name, _ in held))
    if not over_quota:
        _require_quota(program, occupancy)
    if not force:
        queues = {each.name: PoolQueue(occupancy[slots_name(each.name)]) for each in pools}
        constraint_input = ConstraintInput(now, resources=Resources(occupancy, queues))
        await _require_room(connection, program, at_most, (*slots, *pools), constraint_input)
    defined = program_from_json(definition)
    preferences = await preferences_of(connection, program.namespace)
    merged = {**with_preferences(defined, preferences).arguments, **arguments}
    pool = pools[0].name if pools else None
    started = run, str(program), program_to_json(defined), merged, RunState.PENDING, now, pool
    await connection.execute(SQL["start"], *started)
    await groups.take(connection, [(name, run, weight) for name, weight in held])
    await _take_tokens(connection, program, schedules, now)
    await record(connection, "run", run, "run.created", why, at=now)
    await connection.execute(SQL["ring"])


async def answer(
    connection: Connection,
    program: ProgramRef,
    definition: Any,
    name: str,
    facts: Mapping[str, str],
    *,
    prefix: str,
    why: str,
    now: datetime,
) -> str:
    """Makes a run that answers something, over all limits; returns its id. `name`: of what it answers, so that it is
    answered once. The facts are its arguments, each with `prefix` before its name.
    """
    run = run_id(f"{program}.{name}", 1)
    arguments = {f"{prefix}{key}": value for key, value in facts.items()}
    await make_run(connection, program, definition, run, arguments, why=why, now=now, force=True, over_quota=True)
    return run


def _require_quota(program: ProgramRef, occupancy: Mapping[str, Occupancy]) -> None:
    """Raises:
    QuotaExceededError: the namespace has as many active runs as its quota allows.
    """
    found = occupancy.get(quota_slots(program.namespace))
    if found is not None and found.limit is not None and found.taken >= found.limit:
        raise QuotaExceededError(program.namespace, Quota.RUNS, found.limit, used=found.taken, wanted=1)


async def _take_tokens(
    connection: Connection, program: ProgramRef, schedules: Sequence[Schedule], now: datetime
) -> None:
    """Takes tokens from the buckets of the program, and of the groups named by rates of its schedules."""
    no_key = ScheduleKey(ScheduleRef(program.namespace, program.app, program.name))
    named = {
        bucket_of(rate, program, no_key)
        for each in schedules
        for rate in each.rates
        if rate.of in (RateScope.PROGRAM, RateScope.GROUP)
    }
    buckets = await rates.lock_buckets(connection, named, now=now)
    await rates.take(connection, buckets, {bucket.key for bucket in buckets}, now)


async def _require_room(
    connection: Connection,
    program: ProgramRef,
    at_most: int | None,
    shared: Sequence[Group | Pool],
    constraint_input: ConstraintInput,
) -> None:
    """Raises:
    ConflictError: `at_most` runs are active, or a group or pool is full.
    """
    active = await fetch_value(connection, SQL["active"], int, str(program))
    if at_most is not None and active >= at_most:
        raise ConflictError(f"program '{program}' has {active} active runs; at most {at_most} were asked for")
    room = check_all(
        tuple(replace(each, wait=False) for each in shared), constraint_input, constraint_input.satisfied_at
    )
    if room.is_aborted:
        raise ConflictError(room.reason)
