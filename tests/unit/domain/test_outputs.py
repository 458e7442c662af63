"""Outputs of programs: their rules, their JSON, and when all are committed."""

from __future__ import annotations

import pytest

from streamsched.codec.schedules.schedule import program_from_json, program_to_json
from streamsched.define.app import App
from streamsched.domain.errors import DecodeError, InvalidDefinitionError
from streamsched.domain.jobs.run_commit import MOST_PARTITIONS
from streamsched.domain.names import DatasetRef
from streamsched.domain.programs.output import MOST_OUTPUTS, OutputFormat, ProgramOutput, find_uncommitted

BASH = {"namespace": "shop", "application": "a", "name": "p", "type": "bash", "command": "true"}
DAILY, HOURLY = (ProgramOutput(DatasetRef("shop", each)) for each in ("daily", "hourly"))


def test_names_and_places_are_read_and_written() -> None:
    given = ["daily", {"dataset": "shop.hourly", "format": "delta", "location": "s3://lake/hourly"}]

    program = program_from_json({**BASH, "outputs": given, "done_when_committed": True})

    assert program.outputs == (DAILY, ProgramOutput(HOURLY.dataset, OutputFormat.DELTA, "s3://lake/hourly"))
    assert program.done_when_committed
    assert program_from_json(program_to_json(program)) == program
    assert "outputs" not in program_to_json(program_from_json(BASH)), "a program of before has the same digest"


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"outputs": ["daily", "shop.daily"]}, "$.outputs[1]"),
        ({"outputs": ["other.daily"]}, "$.outputs[0]"),
        ({"outputs": ["a/b"]}, "$.outputs[0].dataset"),
        ({"outputs": [3]}, "$.outputs[0]"),
        ({"outputs": [{"dataset": "daily", "location": "lake/daily"}]}, "$.outputs[0].location"),
        ({"outputs": [{"dataset": "daily", "location": "/lake\ndaily"}]}, "$.outputs[0].location"),
        ({"outputs": [{"dataset": "daily", "location": "/" + 1000 * "x"}]}, "$.outputs[0].location"),
        ({"outputs": [{"dataset": "daily", "format": "iceberg", "location": "daily"}]}, "$.outputs[0].location"),
        ({"outputs": [{"dataset": "daily", "format": "csv"}]}, "$.outputs[0].format"),
        ({"outputs": [f"d{n}" for n in range(MOST_OUTPUTS + 1)]}, "$.outputs"),
        ({"done_when_committed": True}, "$.done_when_committed"),
        ({"type": "publish", "event": "e", "outputs": ["daily"]}, "$.outputs"),
    ],
)
def test_what_is_wrong_has_its_path(members: dict[str, object], path: str) -> None:
    with pytest.raises((DecodeError, InvalidDefinitionError)) as refused:
        program_from_json({**{k: v for k, v in BASH.items() if "type" not in members or k != "command"}, **members})

    assert refused.value.path == path


def test_an_app_declares_them_for_every_program_with_a_process() -> None:
    app = App("a", namespace="shop")
    app.spark("s", main="s.py", outputs=["daily"], done_when_committed=True)
    app.bash("b", "true", outputs=[{"dataset": "hourly", "location": "/lake/hourly"}])
    app.python("p", "m:f", outputs=["hourly"])

    programs = {each.ref.name: each for each in app.definition().programs}

    assert programs["s"].outputs == (DAILY,)
    assert programs["s"].done_when_committed
    assert programs["b"].outputs == (ProgramOutput(HOURLY.dataset, location="/lake/hourly"),)
    with pytest.raises(InvalidDefinitionError, match=r"programs\.q.*outputs"):
        app.bash("q", "true", outputs=["other.daily"])


def test_a_commit_counts_when_its_last_event_is_known() -> None:
    outputs = (DAILY, HOURLY)
    announced = [("shop.daily", 1), ("shop.hourly", MOST_PARTITIONS), ("shop.hourly", MOST_PARTITIONS)]

    assert find_uncommitted(outputs, []) == ["shop.daily", "shop.hourly"]
    assert find_uncommitted(outputs, announced) == ["shop.hourly"]
    assert find_uncommitted(outputs, [*announced, ("shop.hourly", 1)]) == []
    assert find_uncommitted((), announced) == []
