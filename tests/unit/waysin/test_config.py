from datetime import timedelta
from pathlib import Path

import pytest

from streamsched.config import Settings
from streamsched.domain.errors import ConfigurationError

DATABASE = {"STREAMSCHED_DATABASE_URL": "postgresql://localhost/x"}


def test_the_broker_is_the_database_unless_named() -> None:
    assert Settings.from_env(DATABASE).broker_url == "postgresql://localhost/x"
    assert Settings.from_env({**DATABASE, "STREAMSCHED_BROKER_URL": "kafka://a:9092"}).broker_url == "kafka://a:9092"


def test_deployments_update_schedules_unless_a_setting_says_otherwise() -> None:
    assert Settings.from_env(DATABASE).api.update_schedules
    assert not Settings.from_env({**DATABASE, "STREAMSCHED_UPDATE_SCHEDULES": "false"}).api.update_schedules


def test_every_kind_of_field_is_read() -> None:
    settings = Settings.from_env(
        {**DATABASE, "STREAMSCHED_SHARDS": "16", "STREAMSCHED_LEASE": "1500ms", "STREAMSCHED_DATA_DIR": "/srv/x"}
    )
    assert (settings.shards, settings.lease, settings.data_dir) == (16, timedelta(seconds=1.5), Path("/srv/x"))


def test_what_is_given_wins_over_the_environment_and_none_gives_nothing() -> None:
    environ = {**DATABASE, "STREAMSCHED_API_PORT": "9000"}
    assert Settings.from_env(environ, api_port=9001).api.port == 9001
    assert Settings.from_env(environ, api_port=None).api.port == 9000


def test_runs_emit_to_the_api_of_their_launchers_machine_unless_another_is_named() -> None:
    assert Settings.from_env(DATABASE).emit_url == "http://127.0.0.1:8765"
    assert Settings.from_env({**DATABASE, "STREAMSCHED_API_HOST": "::"}).emit_url == "http://127.0.0.1:8765"
    assert Settings.from_env({**DATABASE, "STREAMSCHED_API_HOST": "::1"}).emit_url == "http://[::1]:8765"
    assert Settings.from_env({**DATABASE, "STREAMSCHED_EMIT_URL": "http://api:80"}).emit_url == "http://api:80"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("STREAMSCHED_SHARDS", "many", "whole number"),
        ("STREAMSCHED_SHARDS", "0", "from 1"),
        ("STREAMSCHED_LEASE", "5", "duration"),
        ("STREAMSCHED_LEASE", "0s", "longer"),
        ("STREAMSCHED_API_PORT", "70000", "65535"),
        ("STREAMSCHED_DATABASE_URL", "mysql://x", "postgresql://"),
        ("STREAMSCHED_LOG_FORMAT", "xml", "console"),
        ("STREAMSCHED_EMIT_URL", "api:8765", "http://"),
        ("STREAMSCHED_LOST_AFTER", "1s", "heartbeat"),
        ("STREAMSCHED_TASKS_IN_FLIGHT", "0", "at least 1"),
        ("STREAMSCHED_SPARK_EVENT_LOGS", "s3a://logs", "a folder or file:///"),
        ("STREAMSCHED_SPARK_EVENT_LOGS", "logs", "absolute path"),
    ],
)
def test_a_wrong_variable_is_named_with_its_rule(variable: str, value: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        Settings.from_env({**DATABASE, variable: value})
    assert variable in str(caught.value)


def test_a_missing_database_says_what_to_set() -> None:
    with pytest.raises(ConfigurationError, match="STREAMSCHED_DATABASE_URL is not set"):
        Settings.from_env({})


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("0s", 0), ("1h30m", 5400), ("2w", 1209600), ("0.5s", 0.5), ("1d 12h", 129600)]
)
def test_durations_are_written_as_everywhere_else_and_nothing_is_0(text: str, seconds: float) -> None:
    settings = Settings.from_env({**DATABASE, "STREAMSCHED_VERDICTS_KEEP": text})

    assert settings.keep.verdicts == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["5", "s", "-5s", "5s2", "1y"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"STREAMSCHED_VERDICTS_KEEP: '{text}' is no duration"):
        Settings.from_env({**DATABASE, "STREAMSCHED_VERDICTS_KEEP": text})


def test_a_child_process_reads_the_same_settings() -> None:
    settings = Settings.from_env(
        {},
        database_url="postgresql://u:p@h/d",
        lease=timedelta(microseconds=50, seconds=1),
        retention=timedelta(days=400),
        shards=16,
        emit_url="http://api",
    )
    assert Settings.from_env(settings.variables()) == settings


def test_others_are_given_by_the_names_of_their_variables_and_secrets_are_never_printed() -> None:
    settings = Settings.from_env(DATABASE, oidc_client_secret="hush", dapr_app_token="hush")

    other = settings.replace(api_port=9001)
    assert (other.api.port, other.openid.client_secret) == (9001, "hush")
    assert "hush" not in repr(other)
    assert Settings.from_env(other.variables()) == other


@pytest.mark.parametrize("name", ["oidc_roles", "oidc_algorithms", "task_topics", "lineage_datasets", "smtp_url"])
def test_what_has_a_form_of_its_own_is_read_at_the_start(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"STREAMSCHED_{name.upper()}"):
        Settings.from_env(DATABASE, **{name: "=,=nothing"})
