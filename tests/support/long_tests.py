"""Which tests are long: `make test-long` runs them, `make test` all others. Every test runs exactly once, except those
marked `nightly`: they repeat dearly what another long test does, and `make test-nightly` runs them.

A folder or module is long when it is listed here, a single test when it is marked `@pytest.mark.long`. `make test`
keeps a short test of each kind: a kill, a simulation, hostile content, Kafka, Spark, `streamsched dev`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

#: Folders and modules below `tests`.
LONG: Final = (
    "acceptance/test_apply.py",
    "acceptance/test_bad_input.py",
    "acceptance/test_cdap_import.py",
    "acceptance/test_changes.py",
    "acceptance/test_dapr_example.py",
    "acceptance/test_demo.py",
    "acceptance/test_docs.py",
    "acceptance/test_follow_one_event.py",
    "acceptance/test_killed_in_the_demo.py",
    "acceptance/test_newcomer.py",
    "acceptance/test_pause_killed.py",
    "contracts/test_contract_catches.py",
    "contracts/test_exactness.py",
    "faults",
    "hostile/bodies",
    "integration/admin/test_administration.py",
    "integration/admin/test_job_numbers.py",
    "integration/admin/test_resharding.py",
    "integration/api/test_decisions_api.py",
    "integration/api/test_paging_api.py",
    "integration/api/test_quotas_of_served_apis.py",
    "integration/api/test_request_guard.py",
    "integration/api/test_shares_of_streams.py",
    "integration/brokers/test_kafka_secured.py",
    "integration/brokers/test_log_across_crash.py",
    "integration/dapr/test_dapr_lost_apps.py",
    "integration/dapr/test_dapr_owners.py",
    "integration/dapr/test_dapr_scheduler.py",
    "integration/dev",
    "integration/launcher/test_clock_jumps.py",
    "integration/launcher/test_cluster_runs.py",
    "integration/launcher/test_connect_runs.py",
    "integration/launcher/test_driver_processes.py",
    "integration/launcher/test_fences.py",
    "integration/launcher/test_graph_scale.py",
    "integration/launcher/test_packages.py",
    "integration/launcher/test_plans.py",
    "integration/launcher/test_races.py",
    "integration/launcher/test_retention.py",
    "integration/launcher/test_time.py",
    "integration/launcher/test_warm_starts.py",
    "integration/spark/test_bad_programs.py",
    "integration/spark/test_flights.py",
    "integration/spark/test_pfs_at_url.py",
    "integration/spark/test_pyspark_modules.py",
    "integration/store/test_concurrent_changes.py",
    "integration/store/test_read_your_writes.py",
    "integration/store/test_relay_killed.py",
    "integration/store/test_several_hosts.py",
    "integration/store/test_verdicts.py",
    "integration/tables/test_bad_places.py",
    "integration/tables/test_consume.py",
    "integration/tables/test_delta.py",
    "integration/tables/test_iceberg.py",
    "integration/tables/test_object_commits.py",
    "integration/tables/test_spark_writes.py",
    "integration/tables/test_watch_killed.py",
    "integration/tasks/test_lane_machine.py",
    "integration/tasks/test_many_waiting.py",
    "integration/tasks/test_task_intake.py",
    "integration/tasks/test_task_plans.py",
    "integration/test_postgres_server.py",
    "integration/test_refusals_on_kafka.py",
    "integration/test_wake_ups.py",
    "integration/web/test_nothing_of_another_namespace.py",
    "integration/web/test_offered_links.py",
    "integration/web/test_webhook_pages.py",
    "properties/test_app_schema.py",
    "properties/test_broker_model.py",
    "properties/test_clockwork_machine.py",
    "properties/test_graph_machine.py",
    "properties/test_known_ids.py",
    "unit/admin/test_reshard.py",
    "unit/api/test_connections.py",
    "unit/emit/test_spooling.py",
    "unit/fold/test_many_keys.py",
    "unit/webhooks/test_decision_feed.py",
)

#: Parts of the above that are short.
SHORT: Final = (
    "faults/test_judges.py",
    "faults/test_request_judges.py",
    "faults/test_held_judges.py",
    "faults/test_deadlines_killed.py",
    "faults/test_task_judge.py",
    "faults/test_dapr_judge.py",
    "faults/test_graph_judge.py",
    "faults/test_growth_judge.py",
    "faults/test_driver_judge.py",
    "faults/test_file_set_judge.py",
    "integration/dev/test_commands.py",
)

#: Long modules that take minutes, slowest first: they are started before the others, so that none is left for the end.
SLOWEST: Final = (
    "acceptance/test_docs.py",
    "faults/test_trials.py",
    "architecture/test_parts.py",
    "integration/launcher/test_packages.py",
    "integration/dev/test_data_folder.py",
    "integration/api/test_reference_matrix.py",
    "hostile/bodies/test_bodies.py",
    "acceptance/test_newcomer.py",
    "integration/spark/test_pfs.py",
    "integration/dev/test_access.py",
    "acceptance/test_demo.py",
    "acceptance/test_pages.py",
    "integration/launcher/test_imported_runs.py",
    "integration/dev/test_restart.py",
    "acceptance/test_follow_one_event.py",
    "integration/compose/test_local_cluster.py",
    "integration/webhooks/test_webhook_feeding.py",
    "acceptance/test_keyed_chain.py",
    "acceptance/test_backfill.py",
    "acceptance/test_page_layout.py",
    "integration/launcher/test_prepared_drivers.py",
    "integration/launcher/test_connect_runs.py",
    "integration/launcher/test_cluster_runs.py",
    "integration/spark/test_jar_programs.py",
    "integration/spark/test_streaming.py",
    "integration/spark/test_pyspark_modules.py",
    "simulation/test_simulation.py",
    "year/test_year.py",
    "integration/expectations/test_expectation_plans.py",
    "integration/dev/test_graphs.py",
    "integration/tables/test_object_commits.py",
    "integration/dev/test_run_start.py",
    "acceptance/test_cdap_import.py",
    "integration/dev/test_terminal.py",
    "integration/tables/test_watch_killed.py",
    "integration/tables/test_spark_writes.py",
    "contracts/test_kafka_broker.py",
    "integration/launcher/test_warm_starts.py",
)

#: Values of `-m` that select long tests alone.
_LONG_ALONE: Final = ("long and not nightly", "nightly")
_TESTS: Final = Path(__file__).parents[1]


def is_imported(path: PurePosixPath, selected: str) -> bool:
    """Whether the module at this path, relative to `tests`, may have a test that `-m` selects: to import all modules
    takes 15 s of a core, in each of the processes that share the tests."""
    return selected not in _LONG_ALONE or has_long_tests(path)


@cache
def has_long_tests(path: PurePosixPath) -> bool:
    """Whether the module at this path is listed as long, or has the mark of a long or nightly test in its text."""
    if is_long(path):
        return True
    text = (_TESTS / path).read_text()
    return "mark.long" in text or "mark.nightly" in text


def place_in_run(path: PurePosixPath) -> int:
    """When the module at this path, relative to `tests`, is started: a lower number before a higher one."""
    name = str(path)
    return SLOWEST.index(name) if name in SLOWEST else len(SLOWEST)


@cache
def is_long(path: PurePosixPath) -> bool:
    """Whether the module at this path, relative to `tests`, is listed as long."""
    lineage = {path, *path.parents}
    return bool(lineage & {PurePosixPath(each) for each in LONG}) and not lineage & {
        PurePosixPath(each) for each in SHORT
    }
