"""Runner processes, one for each run; they outlive the process that started them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.errors import InvalidError
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.runs import Assignment, RunEnd


@dataclass(frozen=True, slots=True)
class RunnerId:
    """A process on a host; its start time (clock ticks since boot, 0 where unknown) distinguishes it from a later
    process with its pid. As text: `host:pid:ticks`.
    """

    host: str
    pid: int
    start_ticks: int

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.start_ticks}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`.

        Raises:
            InvalidError: not `host:pid:ticks`.
        """
        try:
            host, pid, ticks = text.rsplit(":", 2)
            return cls(host, int(pid), int(ticks))
        except ValueError:
            raise InvalidError("$", f"'{text}' is not of the form host:pid:ticks") from None


#: Stands for the runner of a run that none executes now.
NO_RUNNER: Final = RunnerId("-", 0, 0)


class Runners(Protocol):
    """Starts runner processes and knows those of this host."""

    def spawn(self, run: str, kind: ProcessKind) -> None:
        """Starts a detached process that claims the run and executes it. Several may be started for a run: the first to
        claim it executes it, the others exit.

        Raises:
            UnavailableError: the process cannot be started now.
        """
        ...

    def fence(self, run: str) -> None:
        """Starts a process that writes the fence of a run that was given up.

        Raises:
            UnavailableError: it cannot be started now.
        """
        ...

    def fence_room(self) -> int:
        """How many more such processes may be started here now."""
        ...

    def places(self) -> Mapping[ProcessKind, int]:
        """How many processes of each kind this host has places for, without the reserve (`process_room.reserve_of`)."""
        ...

    def room(self, kind: ProcessKind) -> int:
        """How many more processes of this kind may be started here now, with the reserve; other runs stay PENDING."""
        ...

    def is_alive(self, runner: RunnerId) -> bool | None:
        """Whether that process lives; None when it is on another host."""
        ...

    def end_note(self, run: str) -> RunEnd | None:
        """The end that the runner wrote to this host's disk before storing it in PostgreSQL; None without a note.

        Raises:
            UnavailableError: a note may exist, but cannot be read now.
        """
        ...


class InlineRunner(Protocol):
    """Executes short runs in the launcher's process, without a process for each."""

    @property
    def runner(self) -> RunnerId:
        """The id of this process."""
        ...

    def fits(self, program: Program) -> bool:
        """Whether it executes such a program."""
        ...

    def room(self) -> int:
        """How many more runs that send a request this process may hold now: with those it holds, about as many as it
        executes in a second, and those that wait for slow servers.
        """
        ...

    def publications(self) -> int:
        """How many more runs that publish an event or make a task this process may hold now. They end with their claim
        and wait only until their ends are stored, so they take no room from requests.
        """
        ...

    async def wait_for_room(self) -> None:
        """Returns when there is `room` again after there was none; at once when that happened since the last call."""
        ...

    def execute(self, runs: Sequence[Assignment]) -> None:
        """Executes and ends runs that are claimed already; returns at once. Idempotent."""
        ...

    def claim_and_execute(self, runs: Sequence[str]) -> None:
        """Claims these runs and executes those it gets; returns at once."""
        ...

    def holds(self, run: str) -> bool:
        """Whether it executes that run or has not stored its end yet."""
        ...
