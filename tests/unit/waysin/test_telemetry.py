import io
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
import structlog

from streamsched.telemetry.logs import QUIETED, configure_logs
from streamsched.telemetry.metrics import TABLE, MetricKind, Metrics


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What a configured process logs; the process-wide configuration is put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in QUIETED}
    out = io.StringIO()
    configure_logs(style="json", stream=out)
    yield out
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def test_a_line_is_json_with_its_action_and_facts(lines: io.StringIO) -> None:
    structlog.get_logger().info("shard.taken", shard=3)
    line = orjson.loads(lines.getvalue())
    assert (line["action"], line["shard"], line["level"]) == ("shard.taken", 3, "info")
    assert line["time"].endswith("Z")


def test_a_library_goes_the_same_way_and_keeps_its_words(lines: io.StringIO) -> None:
    logging.getLogger("faust.worker").info("chatter")
    logging.getLogger("faust.worker").error("lost %s", "it")
    line = orjson.loads(lines.getvalue())
    assert (line["action"], line["message"], line["level"]) == ("faust.worker.message", "lost it", "error")


def test_an_exception_is_in_its_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        structlog.get_logger().exception("task.died", task="relay")
    assert "ValueError: boom" in orjson.loads(lines.getvalue())["exception"]


def test_a_traceback_in_columns_shows_no_variables(lines: io.StringIO) -> None:
    out = io.StringIO()
    configure_logs(style="console", stream=out)
    secret = "s3" + "cret"  # so that no line of this file has it
    try:
        raise ValueError("boom " + str(len(secret)))
    except ValueError:
        structlog.get_logger().exception("task.died")
    assert "ValueError: boom 6" in out.getvalue()
    assert "s3cret" not in out.getvalue()


def test_a_log_file_on_a_full_disk_is_complained_of_once(lines: io.StringIO, tmp_path: Path) -> None:
    out = io.StringIO()
    configure_logs(style="json", stream=out, file=tmp_path / "log")
    _, kept = logging.getLogger().handlers
    assert isinstance(kept, logging.StreamHandler)
    kept.close()
    kept.stream = Path("/dev/full").open("w")  # noqa: SIM115 - closed with its handler

    for shard in range(3):
        structlog.get_logger().info("shard.taken", shard=shard)

    said = out.getvalue().splitlines()
    assert said.count(f"{tmp_path / 'log'} cannot be written: No space left on device; lines are missing there") == 1
    assert len(said) == 4
    with suppress(OSError):
        kept.close()


def test_two_sets_of_metrics_never_mix() -> None:
    one, other = Metrics(), Metrics()
    one.add("events_rejected_total", 5, dialect="cdap")
    assert b'rejected_total{dialect="cdap"} 5.0' in one.render()
    assert b'dialect="cdap"' not in other.render()


def test_a_gauge_forgets_what_its_new_picture_does_not_name() -> None:
    metrics = Metrics()
    metrics.replace("jobs_waiting", [({"state": "LAUNCHED"}, 1), ({"state": "ABORTED"}, 2)])
    metrics.replace("jobs_waiting", [({"state": "LAUNCHED"}, 3)])
    assert b'jobs_waiting{state="LAUNCHED"} 3.0' in metrics.render()
    assert b"ABORTED" not in metrics.render()


def test_names_say_their_unit() -> None:
    for metric in TABLE:
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric
        assert (metric.kind is MetricKind.HISTOGRAM) == bool(metric.buckets), metric
