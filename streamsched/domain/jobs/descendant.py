"""What became of a program whose end a join per run still waits for: its newest job that descends from that run."""

from __future__ import annotations

from dataclasses import dataclass

from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef

_ENDED = {RunState.FAILED: "failed", RunState.KILLED: "was killed", RunState.LOST: "was lost"}


@dataclass(frozen=True, slots=True)
class Descendant:
    """The newest job of a program that descends from a run, and its last run.

    Attributes:
        reason: of the run, or of the job when it has none.
        joined: the job into which this one is coalesced.
    """

    program: ProgramRef
    job: str
    state: JobState
    reason: str
    joined: str | None = None
    run: str | None = None
    run_state: RunState | None = None

    @property
    def text(self) -> str:
        """One sentence: what it waits for, or what went wrong and completes the join."""
        because = f": {self.reason}" if self.reason else ""
        if self.run is not None and self.run_state is not None:
            if self.run_state in _ENDED:
                how = _ENDED[self.run_state]
                return f"{self.program} {how} in run {self.run}{because}; a rerun of it completes this key"
            if self.run_state is RunState.COMPLETED:
                return f"{self.program} has succeeded in run {self.run}, which has not counted here"
            return f"{self.program} is {self.run_state} in run {self.run}"
        if self.joined is not None:
            return f"{self.program} waits in job {self.joined}, which {self.job} joined"
        if self.state.is_terminal:
            return f"{self.program} did not run: job {self.job} is {self.state}{because}"
        return f"{self.program} waits in job {self.job}{because}"


def text_of_none(program: ProgramRef) -> str:
    """Of a program without such a job."""
    return f"{program} has no job that descends from this run"
