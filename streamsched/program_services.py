"""Composition of what programs and people keep beside schedules: preferences of a namespace, bookmarks of readers,
commits of file sets, profiles, bundles and names of datasets in OpenLineage; and of what executes programs in the
process of a launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

import structlog

from streamsched.config import Settings
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.programs.program_users import ProgramUsers
from streamsched.launcher.inline_executor import InlineExecutor
from streamsched.ports.clock import Clock
from streamsched.ports.runner import RunnerId
from streamsched.process.http_client import HttpClient
from streamsched.process.run_forever import run_forever
from streamsched.process.separation import check_users, not_separated
from streamsched.secrets.resolver import Secrets, installed
from streamsched.spark.processes import LocalRunners
from streamsched.store.catalog.lineage_ends import PostgresLineageEnds
from streamsched.store.catalog.preferences import PostgresPreferenceStore
from streamsched.store.connections import Pool
from streamsched.store.datasets.bookmarks import BookmarkStore
from streamsched.store.datasets.file_set_commits import FileSetCommitStore
from streamsched.store.jobs.descendants import PostgresDescendants
from streamsched.store.programs.bundles import PostgresBundleStore
from streamsched.store.programs.profiles import PostgresProfileStore
from streamsched.store.runs.run_batch import PostgresRunBatch
from streamsched.telemetry.traces.settings import run_sampler

log = structlog.get_logger()

#: Variables that other programs take proxies from.
_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy"})
#: How long a bundle is kept to which nothing refers: a deployment follows its upload.
_KEEP: Final = timedelta(days=1)
#: Seconds between two removals of unused bundles.
_EVERY_S: Final = 600.0


def program_services(pool: Pool, settings: Settings) -> Mapping[str, Any]:
    """These services of the HTTP application (`ApiServices`)."""
    users = ProgramUsers.parse(settings.run_as)
    return {
        "runs_apart": lambda program: bool(users.user_of(program)),
        "preferences": PostgresPreferenceStore(pool),
        "bookmarks": BookmarkStore(pool),
        "profiles": PostgresProfileStore(pool),
        "bundles": PostgresBundleStore(pool),
        "bundle_limit": settings.bundle_limit,
        "outgoing_networks": settings.networks(),
        "lineage_datasets": settings.datasets_by_location(),
        "end_lineage_run": PostgresLineageEnds(pool).end,
        "file_set_commits": FileSetCommitStore(pool),
        "descendants": PostgresDescendants(pool),
    }


def make_inline(
    pool: Pool, me: RunnerId, clock: Clock, settings: Settings, environ: Mapping[str, str]
) -> InlineExecutor:
    """What executes HTTP and publish programs. `environ`: the variables that secrets may be."""
    secrets = Secrets(settings.secret_rules(), environ, installed())
    sampler = run_sampler(environ, traces=settings.traces)
    batch = PostgresRunBatch(pool)
    client = HttpClient(settings.networks(), proxy=settings.outgoing_proxy)
    ignored = [] if settings.outgoing_proxy else sorted(name for name in environ if name.lower() in _PROXIES)
    if ignored:
        log.warning("outgoing.proxies_ignored", variables=ignored, instead="STREAMSCHED_OUTGOING_PROXY")
    return InlineExecutor(batch, me, client, clock, heartbeat=settings.heartbeat, secrets=secrets, sampler=sampler)


def local_runners(settings: Settings, environ: Mapping[str, str]) -> LocalRunners:
    """What starts runners on this machine. Logs what does not separate programs. `environ`: of the runners, in addition
    to the settings.

    Raises:
        ConfigurationError: programs cannot run as the users that the settings name.
    """
    users = ProgramUsers.parse(settings.run_as)
    check_users(users)
    for each in not_separated(users):
        log.warning("programs.not_separated", reason=each)
    runners = LocalRunners(
        settings.data_dir.absolute(),
        {**environ, **settings.variables()},
        warm=settings.warm_starts,
        places={ProcessKind.HOST: settings.processes, ProcessKind.CLUSTER: settings.cluster_processes},
    )
    if settings.prepared_drivers:  # the first Spark run teaches what to prepare, if it is forked
        runners.start_fork_server()
    return runners


def removal_of_bundles(pool: Pool, clock: Clock) -> Callable[[], Coroutine[Any, Any, None]]:
    """The loop that removes unused bundles."""
    return lambda: run_forever(
        partial(remove_bundles, PostgresBundleStore(pool), clock), called="bundles", ending_by=clock
    )


async def remove_bundles(store: PostgresBundleStore, clock: Clock) -> float:
    """Removes bundles to which nothing refers; returns the seconds until the next call."""
    removed = await store.remove_unused(before=clock.now() - _KEEP)
    if removed:
        log.info("bundles.removed", bundles=len(removed), first=removed[0])
    return _EVERY_S
