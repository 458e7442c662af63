"""Why a run failed: the classes that a retry policy names, and how the end of a process is put into one.

    >>> classify(137), classify(-9, oom_killed=True), classify(52), classify(1)
    (<Failure.CRASH: 'crash'>, <Failure.OOM: 'oom'>, <Failure.OOM: 'oom'>, <Failure.ERROR: 'error'>)

A shell, and Spark's JVM for the Python process below it, report a signal n as exit code 128+n; that is the same as -n.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from streamsched.domain.jobs.run import RunState

#: The largest exit code that is neither the shell's own nor that of a signal.
LARGEST_EXIT_CODE: Final = 125
#: The largest signal number of Linux.
_MOST_SIGNALS: Final = 64
_SIGKILL: Final = 9
#: `SparkExitCode.OOM`: an executor or driver without memory. 53 is a folder that could not be created.
_SPARK_OOM: Final = 52
#: `BasicContainerExecutor` and Kubernetes: what ended a container for its memory, or to make room for another.
_OOM_TEXT: Final = re.compile(
    r"java\.lang\.OutOfMemoryError|\bOOMKilled\b|[Cc]ontainer killed (by YARN )?(for exceeding|on request).{0,80}memory"
    r"|running beyond (physical|virtual) memory limits|^MemoryError\b",
    re.MULTILINE,
)
_EVICTED_TEXT: Final = re.compile(
    r"\b[Cc]ontainer (was )?preempted\b|\bPREEMPTED\b|\b[Pp]od .{0,80}\bevicted\b|\bEvicted:"
)


class Failure(StrEnum):
    """Why a run failed.

    LOST: its machine or runner was lost. CRASH: a signal that the scheduler did not send ended its process. OOM: its
    memory did not suffice, and its process or an executor was ended for it. EVICTED: its cluster took its place for
    another. CANCELLED: a user ended its driver in the cluster. ERROR: any other exit code. TIMEOUT: it took longer
    than its maximum duration.
    """

    LOST = "lost"
    CRASH = "crash"
    OOM = "oom"
    EVICTED = "evicted"
    CANCELLED = "cancelled"
    ERROR = "error"
    TIMEOUT = "timeout"


def signal_of(code: int) -> int | None:
    """The signal that ended a process with this exit code: n of -n and of 128+n; None when none did."""
    number = -code if code < 0 else code - 128
    return number if 0 < number <= _MOST_SIGNALS else None


def classify(code: int, output: str = "", *, oom_killed: bool = False) -> Failure:
    """The class of a process's unsuccessful end.

    Args:
        code: its exit code; negative: minus the signal that ended it.
        output: the end of its log.
        oom_killed: whether the kernel killed a process of the run for memory.
    """
    if code == _SPARK_OOM or (oom_killed and signal_of(code) == _SIGKILL) or _OOM_TEXT.search(output):
        return Failure.OOM
    if _EVICTED_TEXT.search(output):
        return Failure.EVICTED
    return Failure.ERROR if signal_of(code) is None else Failure.CRASH


def failure_of(
    state: RunState, exit_code: int | None, found: Failure | None = None, *, overdue: bool = False
) -> Failure | None:
    """The failure of a run's end; None: no failure, or ended by request.

    Args:
        found: the class that its runner found, which knows more than the exit code.
        overdue: it was stopped for its duration.
    """
    match state:
        case RunState.KILLED | RunState.FAILED if overdue:
            return Failure.TIMEOUT
        case RunState.LOST:
            return Failure.LOST
        case RunState.FAILED:
            return found or classify(exit_code or 1)
        case RunState.KILLED:
            return found
        case _:
            return None
