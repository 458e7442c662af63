"""What a run without a process hands on of its trace, and where its request goes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import HttpJob, Program
from streamsched.launcher.request import request
from streamsched.ports.runs import Assignment

CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_request_has_the_context_of_its_run_unless_the_program_sets_one() -> None:
    job = HttpJob("http://there/go", "POST", timeout=timedelta(seconds=1))
    own = HttpJob("http://there/go", "POST", headers={"Traceparent": "mine"}, timeout=timedelta(seconds=1))
    run = Assignment("job.r1", 1, Program(ProgramRef("default", "app", "call"), job), {}, traceparent=CONTEXT)

    assert request(run, job).headers["traceparent"] == CONTEXT
    assert request(run, own).headers["traceparent"] == "mine"
    assert "traceparent" not in request(Assignment("job.r1", 1, run.program, {}), job).headers


@pytest.mark.parametrize("url", ["http://{host}/x", "https://there:{host}", "http://a.{host}?q=1", "http://{host}#x"])
def test_an_argument_does_not_choose_the_host_of_a_program_stored_before(url: str) -> None:
    program = Program(ProgramRef("default", "app", "call"), HttpJob(url))
    with pytest.raises(ConfigurationError, match="do not choose host and port"):
        request(Assignment("job.r1", 1, program, {"host": "evil"}), HttpJob(url))
    beside = HttpJob("http://there/{host}?q={host}")
    assert str(request(Assignment("job.r1", 1, program, {"host": "a/b"}), beside).url) == "http://there/a%2Fb?q=a%2Fb"
