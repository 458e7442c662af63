"""Apps whose runs fail, and who is notified of it."""

from __future__ import annotations

from typing import Any

from streamsched import App, cron
from streamsched.catalog import deployment
from streamsched.domain.jobs.run import RunState
from streamsched.store.catalog.catalog import CatalogStore
from tests.integration.webhooks.webhook_world import WebhookWorld

RUN = "default.shop.daily.1.7.r1"
TEAM = "team@example.org"


async def deploy(world: WebhookWorld, *recipients: Any, name: str = "shop", rescued: bool = False) -> None:
    """`rescued`: failures also start program `rescue`."""
    app = App(name, on_failure=recipients)
    load = app.bash("load", "true")
    if rescued:
        app.on_failure(app.bash("rescue", "true"))
    app.schedule("daily", load, when=cron("0 5 * * *"))
    app.schedule("weekly", load, when=cron("0 5 * * 1"))
    wanted, now = app.definition(), world.clock.now()
    await CatalogStore(world.pool).change(
        wanted.ref,
        None,
        lambda found: deployment.deploy(found, wanted, update_schedules=True, now=now),
        now=now,
        programs=[program.ref for program in wanted.programs],
    )
    await world.notifying().run_once()


async def fail(
    world: WebhookWorld, *subjects: str, action: str = "run.failed", reason: str = "exit code 1", **detail: Any
) -> None:
    """Runs fail with their last attempt."""
    kind = action.partition(".")[0]
    await write(world, *((kind, each, action, reason, {"failed": "run", **detail}) for each in subjects))


async def ran(world: WebhookWorld, run: str = RUN) -> None:
    """Stores a run of program `load` that its schedule started."""
    job = run.rpartition(".")[0]
    program, now = "default.shop.load", world.clock.now()
    await world.add_job(job, program=program, at=now)
    await world.add_run(run, program=program, at=now, state=RunState.FAILED, job=job)


async def write(world: WebhookWorld, *lines: tuple[str, str, str, str, dict[str, Any]]) -> None:
    """Lines of the history: kind, subject, action, reason and detail."""
    columns = ("at", "subject_kind", "subject", "action", "reason", "detail")
    async with world.pool.acquire() as own:
        rows = [(world.clock.now(), *each) for each in lines]
        await own.copy_records_to_table("decisions", records=rows, columns=columns)


async def notify(world: WebhookWorld, owner: Any) -> int:
    sent = await world.notifying().run_once()
    await world.settle(owner)
    return sent
