"""Periodic work of a launcher that belongs to no room: what sends spooled events of this host's runs, and what deletes
old nodes and files of runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from streamsched.access.authentication import PERSON_OF_DEV
from streamsched.access.event_intake import EventIntake
from streamsched.access.quota_watch import QuotaWatch
from streamsched.access.run_spools import RunSpools
from streamsched.access.unused_names import UnusedNames
from streamsched.config import Settings
from streamsched.domain.jobs.spool import SpoolingRun
from streamsched.domain.programs.program_users import ProgramUsers
from streamsched.domain.signals.layout import Layout
from streamsched.emit.destination import SPOOLS
from streamsched.graph.retention import NodeRetention
from streamsched.launcher.log_cleanup import LogCleanup
from streamsched.ports.broker import Broker
from streamsched.ports.clock import Clock
from streamsched.ports.leases import LeaseHolder
from streamsched.process.os_user import OsUser
from streamsched.process.run_forever import run_forever
from streamsched.process.supervision import Loop
from streamsched.spark.run_file_store import LocalRunFileStore
from streamsched.store.access.quotas import QuotaStore
from streamsched.store.access.spools import SpoolStore
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore
from streamsched.store.connections import Pool
from streamsched.store.graph.nodes import PostgresNodeStore
from streamsched.store.jobs.archive import PostgresArchive
from streamsched.store.runs.run_commits import PostgresRunCommitStore
from streamsched.telemetry.metrics import Metrics


def host_loops(
    pool: Pool,
    broker: Broker,
    layout: Layout,
    settings: Settings,
    *,
    me: LeaseHolder,
    clock: Clock,
    metrics: Metrics,
    dev: bool,
) -> Mapping[str, Loop]:
    """What each launcher does for its host: sends spooled events of its runs, deletes files of old ones, and empties
    logs of namespaces that have too many. Also frees names of groups and pools that nothing uses. `dev`: what is
    spooled outside of runs is the person's who started `dev`.
    """
    quotas = QuotaWatch(QuotaStore(pool), clock, f"{me.id}-spools", metrics)
    intake = EventIntake(broker, layout.unkeyed_partitions, quotas, clock, metrics, PostgresRunCommitStore(pool))
    data, person = settings.data_dir.absolute(), PERSON_OF_DEV if dev else None
    store = SpoolStore(pool)
    spools = RunSpools(data / SPOOLS, store, intake, host=me.host, person=person, owner_of=_owners(settings))
    archive, limits = PostgresArchive(pool), QuotaStore(pool).limits
    cleanup = LogCleanup(LocalRunFileStore(data), archive, clock, keep=settings.jobs_keep, limits=limits)
    return {
        "spools": lambda: run_forever(spools.run_once, called="spools"),
        "log-cleanup": cleanup.run,
        "unused-names": UnusedNames(NamespaceGrantStore(pool), clock).run,
    }


def _owners(settings: Settings) -> Callable[[SpoolingRun], int]:
    """The user id as which a run's program runs here.

    Raises:
        ConfigurationError: this machine does not have one of the users.
    """
    users = ProgramUsers.parse(settings.run_as)
    ids = {name: OsUser.find(name).uid for name in users.users.values()}
    return lambda run: ids.get(users.user_of(run.program), os.geteuid())


def node_retention(pool: Pool, clock: Clock, settings: Settings) -> NodeRetention:
    """Deletes nodes that ended longer ago than the settings say."""
    return NodeRetention(PostgresNodeStore(pool), clock, keep=settings.nodes_keep)
