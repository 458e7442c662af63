"""States as a word and a tone. The tone chooses the colour; the word is always shown too. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.store.expectations.records import ExpectationRecord


class StateWord(NamedTuple):
    """`tone`: `ok`, `run`, `wait`, `bad` or `off`."""

    tone: str
    word: str


EXPECTATION_WORDS: Final[Mapping[str, StateWord]] = MappingProxyType(
    {
        "met": StateWord("ok", "met"),
        "missing": StateWord("bad", "missing"),
        "learning": StateWord("wait", "learning"),
        "stopped": StateWord("off", "stopped"),
    }
)
RUN_WORDS: Final[Mapping[RunState, StateWord]] = MappingProxyType(
    {
        RunState.PENDING: StateWord("wait", "ready"),
        RunState.STARTING: StateWord("run", "starting"),
        RunState.RUNNING: StateWord("run", "running"),
        RunState.SUSPENDED: StateWord("wait", "suspended"),
        RunState.COMPLETED: StateWord("ok", "completed"),
        RunState.FAILED: StateWord("bad", "failed"),
        RunState.KILLED: StateWord("off", "killed"),
        RunState.LOST: StateWord("bad", "lost"),
    }
)

JOB_WORDS: Final[Mapping[JobState, StateWord]] = MappingProxyType(
    {
        JobState.PENDING_TRIGGER: StateWord("wait", "new"),
        JobState.PENDING_CONSTRAINT: StateWord("wait", "waiting"),
        JobState.PENDING_LAUNCH: StateWord("wait", "ready"),
        JobState.LAUNCHED: StateWord("run", "launched"),
        JobState.ABORTED: StateWord("off", "aborted"),
        JobState.TIMED_OUT: StateWord("bad", "timed out"),
        JobState.OBSOLETE: StateWord("off", "obsolete"),
        JobState.COALESCED: StateWord("off", "coalesced"),
        JobState.LAUNCH_FAILED: StateWord("bad", "launch failed"),
    }
)

SCHEDULE_WORDS: Final[Mapping[str, StateWord]] = MappingProxyType(
    {
        "enabled": StateWord("ok", "enabled"),
        "paused": StateWord("wait", "paused"),
        "disabled": StateWord("off", "disabled"),
        "error": StateWord("bad", "in error"),
    }
)


def in_words(sentence: str) -> str:
    """A sentence with the words of run states instead of their names."""
    for state, word in RUN_WORDS.items():
        sentence = sentence.replace(f"which is {state.value}", f"which is {word.word}")
    return sentence


def job_word(state: JobState, outcome: RunState | None) -> StateWord:
    """The state of a job; of a launched one that of its last run."""
    if state is JobState.LAUNCHED and outcome is not None:
        return RUN_WORDS[outcome]
    return JOB_WORDS[state]


def expectation_word(record: ExpectationRecord) -> StateWord:
    """Whether what is expected was there when it was due last."""
    return EXPECTATION_WORDS[record.state]
