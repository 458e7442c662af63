"""SQL of tests stands in one world (`tests/support/world`), in the tests of the store, and where it is the subject."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
_SQL: Final = re.compile(
    r"\s*(SELECT\b|INSERT INTO |UPDATE \S+ (\w+ )?SET |DELETE FROM |TRUNCATE |ALTER (TABLE|DATABASE|SEQUENCE) "
    r"|WITH \w+ (\([^)]*\) )?AS |CREATE (TABLE|FUNCTION|TRIGGER|DATABASE|INDEX|ROLE) |DROP |EXPLAIN|PREPARE "
    r"|DEALLOCATE |LOCK TABLE |ANALYZE|VACUUM|NOTIFY |LISTEN |COMMENT ON |GRANT |REVOKE |SET [a-z_.]+ )"
)
#: Which modules are worth to be parsed.
_QUOTED: Final = re.compile(rf"[\"']{_SQL.pattern}")
#: Folders and modules that may have SQL, and why.
SUBJECT: Final = {
    "architecture/test_sql_of_tests.py": "its own list",
    "support/world": "the place for it",
    "support/wrong_clock.py": "functions of PostgreSQL that hide its own clock",
    "conftest.py": "databases are made for tests",
    "integration/store": "the store's queries, tables and locks",
    "integration/brokers": "the log in PostgreSQL and its tables",
    "contracts/test_postgres_broker.py": "the log in PostgreSQL and its tables",
    "unit/domain/test_states.py": "CHECK lists beside the tables of machines",
    "unit/store/test_named_queries.py": "files of named queries",
    "integration/test_databases.py": "databases of tests are emptied and dropped",
    "integration/test_postgres_server.py": "a server that is started again has its tables",
    "integration/dev/test_data_folder.py": "a database of another release",
    "integration/dev/test_secret_canaries.py": "every table is searched",
    "integration/webhooks/test_webhook_deliveries.py": "every table is searched",
    "integration/web/test_login_at_a_provider.py": "a database that is gone",
    "integration/launcher/test_plans.py": "EXPLAIN",
    "integration/expectations/test_expectation_plans.py": "EXPLAIN",
    "integration/tasks/test_task_plans.py": "EXPLAIN",
    "integration/launcher/test_graph_scale.py": "EXPLAIN, over many rows",
    "integration/launcher/test_lanes.py": "EXPLAIN, over many rows",
    "integration/launcher/test_process_room.py": "EXPLAIN, over many rows",
    "integration/launcher/test_span_export.py": "EXPLAIN, over many rows",
    "integration/launcher/test_full_launcher.py": "ten thousand rows in one statement",
    "integration/launcher/test_races.py": "a trigger of PostgreSQL is the witness",
    "integration/launcher/test_clock_jumps.py": "times beside those of a clock that is wrong",
    "integration/tasks/test_many_waiting.py": "EXPLAIN, over many rows",
    "integration/tables/spark_writer.py": "SQL of Spark",
    "integration/api/test_access.py": "the audit is changed behind the product's back",
    "integration/api/test_audit_api.py": "the audit is changed behind the product's back",
    "faults/judges": "a judge asks the database beside the product, under faults",
    "faults/load/stored.py": "what a load stores before the product runs",
    "faults/sites": "servers that stop, and databases that follow others",
    "faults/tasks/watched.py": "the queries of the judge of tasks",
    "hostile/row_cases.py": "rows that no class of the product would write",
}
#: SQL that the world could have instead: no module gets more of it.
LEFT: Final[dict[str, int]] = {
    "acceptance/test_changes.py": 2,
    "acceptance/test_docs.py": 1,
    "acceptance/test_follow_one_event.py": 3,
    "acceptance/test_keyed_chain.py": 2,
    "faults/installation.py": 1,
    "faults/outages.py": 3,
    "faults/restore.py": 2,
    "faults/spark/trial.py": 4,
    "faults/tasks/owners.py": 1,
    "faults/tasks/published.py": 1,
    "faults/tasks/resharding.py": 1,
    "faults/tasks/ways_in.py": 1,
    "faults/test_dapr_killed.py": 2,
    "faults/test_deadlines_killed.py": 6,
    "faults/test_launchers_killed.py": 8,
    "faults/test_membership.py": 1,
    "faults/test_notices_killed.py": 14,
    "faults/test_timers_killed.py": 4,
    "hostile/canary.py": 2,
    "integration/admin/test_administration.py": 6,
    "integration/admin/test_job_numbers.py": 1,
    "integration/admin/test_resharding.py": 1,
    "integration/api/test_cdap_apps_api.py": 1,
    "integration/api/test_dapr_api.py": 1,
    "integration/api/test_events_api.py": 1,
    "integration/api/test_file_set_commits_api.py": 4,
    "integration/api/test_limits_api.py": 2,
    "integration/api/test_openlineage_api.py": 4,
    "integration/api/test_orders_api.py": 2,
    "integration/api/test_outgoing_networks.py": 1,
    "integration/api/test_pagerduty_api.py": 1,
    "integration/api/test_program_needs_api.py": 1,
    "integration/api/test_reference_matrix.py": 1,
    "integration/api/test_reruns_api.py": 1,
    "integration/api/test_run_commits_api.py": 1,
    "integration/api/test_shared_names.py": 4,
    "integration/api/test_webhooks_api.py": 3,
    "integration/emit/test_straight_to_the_log.py": 2,
    "integration/expectations/test_expectations.py": 3,
    "integration/expectations/test_expectations_at_once.py": 3,
    "integration/launcher/conftest.py": 4,
    "integration/launcher/test_backfills.py": 1,
    "integration/launcher/test_backfills_of_changed_schedules.py": 1,
    "integration/launcher/test_bundled_runs.py": 1,
    "integration/launcher/test_mixed_releases.py": 1,
    "integration/launcher/test_recovery.py": 2,
    "integration/launcher/test_reruns.py": 2,
    "integration/launcher/test_retention.py": 2,
    "integration/launcher/test_run_spools.py": 2,
    "integration/launcher/test_whynot.py": 1,
    "integration/tables/test_commit_rows.py": 2,
    "integration/tasks/test_lane_machine.py": 1,
    "integration/tasks/test_lanes_of_tasks.py": 1,
    "integration/tasks/test_lost_answers.py": 2,
    "integration/tasks/test_registration_batches.py": 1,
    "integration/tasks/test_task_intake.py": 2,
    "integration/tasks/test_task_partitions.py": 6,
    "integration/test_leases.py": 8,
    "integration/test_leases_in_doubt.py": 2,
    "integration/test_overview.py": 3,
    "integration/test_run_joins.py": 2,
    "integration/test_since_last_run.py": 3,
    "integration/test_wake_ups.py": 3,
    "integration/test_worker.py": 7,
    "integration/web/test_datasets.py": 2,
    "integration/web/test_job_and_run_pages.py": 2,
    "integration/web/test_webhook_pages.py": 1,
    "integration/webhooks/test_mail.py": 4,
    "integration/webhooks/test_webhook_feeding.py": 4,
    "integration/webhooks/test_webhook_receiver_page.py": 1,
    "support/run_joins.py": 3,
}


def _has_sql(text: str) -> int:
    """How many literals of a module begin as a statement of SQL does."""
    if _QUOTED.search(text) is None:
        return 0
    tree = ast.parse(text)
    later = {id(part) for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) for part in each.values[1:]} | {
        id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)
    }
    return sum(
        isinstance(each, ast.Constant)
        and isinstance(each.value, str)
        and id(each) not in later
        and _SQL.match(each.value) is not None
        for each in ast.walk(tree)
    )


@cache
def _found() -> Counter[str]:
    paths = {path.relative_to(TESTS).as_posix(): path for path in TESTS.rglob("*.py")}
    return Counter({name: _has_sql(path.read_text()) for name, path in paths.items()})


def test_sql_stands_where_it_is_the_subject_and_grows_nowhere_else() -> None:
    elsewhere = {
        name: count
        for name, count in _found().items()
        if count and not any(name == each or name.startswith(f"{each}/") for each in SUBJECT)
    }
    more = {name: count for name, count in elsewhere.items() if count > LEFT.get(name, 0)}
    assert not more, "ask tests/support/world, let it grow, or say in SUBJECT why SQL is the subject"
    assert elsewhere == LEFT, "what has become less is less in LEFT too"


def test_a_listed_place_has_sql() -> None:
    found = _found()
    assert [
        each for each in SUBJECT if not any(found[n] and (n == each or n.startswith(f"{each}/")) for n in found)
    ] == []
