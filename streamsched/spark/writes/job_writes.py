"""The writes of this process as those of its job: their commit ids, and what earlier attempts have committed.

The id of a commit is made of the job, the dataset, and the ordinal of the write within that dataset, counted in this
process. So it is the same in each attempt, in whatever order the datasets are written.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Final
from uuid import uuid4

from streamsched.domain.names import DatasetRef
from streamsched.spark.context import RUN_CONTENT, RUN_FILE, RunContext, current_run
from streamsched.spark.writes.write import Author, Write, checked_commit, commit_of_job

log = logging.getLogger("streamsched.spark")

#: Exit code of a program that wrote less than an earlier attempt has committed.
UNMATCHED: Final = 1


class JobWrites:
    """Counts the writes of one run's process. Safe for threads."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._begun: dict[str, int] = {}
        self._active: dict[str, list[Write]] = {}
        self._failed: set[str] = set()
        self._committed: dict[str, int] = {}
        self._fenced: set[str] = set()

    @property
    def author(self) -> Author:
        """This attempt of the job."""
        return Author(self._run.commit_id, self._run.attempt)

    @contextmanager
    def write(self, dataset: DatasetRef, commit: str | None = None) -> Iterator[Write]:
        """A write of the dataset, until the block ends. `commit`: the id that the program gives; None, the id of the
        run or that of the job: the job's, by ordinal.

        Raises:
            InvalidError: the commit id is invalid.
        """
        if commit is not None and commit == self._run.run_id != self._run.commit_id:
            log.warning(
                "commit_id=run.run_id is another one in each attempt, so the job's id is used: leave commit_id out"
            )
        if commit not in (None, self._run.run_id, self._run.commit_id):
            yield Write(checked_commit(str(commit)), self.author)
            return
        write = self._begin(dataset)
        try:
            yield write
        except BaseException:
            with self._lock:
                self._give_back(str(dataset), write)
            raise
        finally:
            with self._lock:
                self._active[str(dataset)].remove(write)

    def _begin(self, dataset: DatasetRef) -> Write:
        name = str(dataset)
        with self._lock:
            ordinal = self._begun[name] = self._begun.get(name, 0) + 1
            beside = self._active.setdefault(name, [])
            author = replace(self.author, ordinal=ordinal, ordered=not beside and name not in self._failed)
            for each in beside:
                each.author = None if each.author is None else replace(each.author, ordered=False)
            write = Write(commit_of_job(author.job, dataset, ordinal), author)
            beside.append(write)
        return write

    def _give_back(self, name: str, write: Write) -> None:
        """The ordinal of a failed write is that of the next one, which may be its repetition; or may not be, so the
        order is not certain from then on.
        """
        self._failed.add(name)
        if write.author is not None and write.author.ordinal == self._begun[name]:
            self._begun[name] -= 1

    def must_fence(self, place: str) -> bool:
        """Whether this attempt has to fence the earlier ones there, before it reads or writes."""
        return self._run.attempt > 1 and place not in self._fenced

    def note_fence(self, dataset: DatasetRef, place: str, committed: Iterable[Author | None]) -> None:
        """The place has this attempt's fence, and these commits from before it. When the program ends well and has
        made fewer writes of the dataset than they are, the process fails.
        """
        mine = self.author
        found = [each.ordinal for each in committed if each is not None and each.job == mine.job]
        if not self._fenced:
            atexit.register(self._end)
        self._fenced.add(place)
        self._committed[str(dataset)] = max([self._committed.get(str(dataset), 0), *found])

    def unmatched_writes(self) -> list[str]:
        """What earlier attempts have committed and this one has not come to: a sentence for each dataset."""
        return [
            f"an earlier attempt of job {self._run.commit_id} has committed write {committed} of {dataset}, and "
            f"attempt {self._run.attempt} made {self._begun.get(dataset, 0)} writes of it: what is committed is not "
            "what this program writes. To write all of it again, rerun the job"
            for dataset, committed in sorted(self._committed.items())
            if committed > self._begun.get(dataset, 0)
        ]

    def _end(self) -> None:
        """At the end of the program: fails it when something is unmatched, unless it has failed already."""
        found = [] if getattr(sys, "last_value", None) is not None else self.unmatched_writes()
        if not found:
            return
        sys.stderr.write("".join(f"streamsched.ConflictError: {each}\n" for each in found))
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(UNMATCHED)


def current_writes(environ: Mapping[str, str]) -> JobWrites | None:
    """The writes of this process's run; None outside runs.

    Raises:
        ConfigurationError, DecodeError: the run file cannot be read.
    """
    content, file = environ.get(RUN_CONTENT, ""), environ.get(RUN_FILE, "")
    return _writes(content, file, os.getpid()) if content or file else None


@contextmanager
def begun_write(
    environ: Mapping[str, str], dataset: DatasetRef, commit: str | None
) -> Iterator[tuple[Write, JobWrites | None]]:
    """A write of this process's run; outside runs one with this id, or with a random one. Raises as `JobWrites.write`
    and `current_writes`.
    """
    writes = current_writes(environ)
    if writes is None:
        yield Write(checked_commit(commit or uuid4().hex)), None
        return
    with writes.write(dataset, commit or None) as write:
        yield write, writes


@cache
def _writes(content: str, file: str, _process: int) -> JobWrites:
    return JobWrites(current_run({RUN_CONTENT: content, RUN_FILE: file}))
