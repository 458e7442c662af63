"""Spools of the runs of this host: events that a program could not send are sent later, as if the run itself sent them.

Whose an event is, is said by the folder in which it lies (`<data_dir>/spool/<run>/`), by the row of that run and by the
folder's owner, never by its line. So a line has no more rights than a request with the run's token, and these hold also
after the run's end: names, quota, and what a run may not announce at all. What is refused is left beside the file,
counted and logged; what is over a quota waits.
"""

from __future__ import annotations

import asyncio
import os
import random
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog

from streamsched.access.authentication import caller_of_run
from streamsched.access.event_intake import EventIntake
from streamsched.codec import event as event_codec
from streamsched.domain.access.grant import Caller
from streamsched.domain.errors import (
    BacklogExceededError,
    BodyExceededError,
    RateExceededError,
    Refusal,
    TooLargeError,
    UnavailableError,
    describe_failure,
)
from streamsched.domain.events.event import Event
from streamsched.domain.jobs.spool import RefusedLines, SpoolingRun
from streamsched.emit.delivery import (
    Accepted,
    Answer,
    DeliveryResult,
    EncodedEvent,
    Refused,
    RetryLimits,
    Send,
    TooLarge,
    Unreachable,
    delivery,
)
from streamsched.emit.destination import OUTSIDE_RUNS
from streamsched.emit.spool import Spool
from streamsched.emit.spooled_file import SpooledFile
from streamsched.store.access.spools import SpoolStore

log = structlog.get_logger()

#: Seconds between two rounds when nothing is left to send now.
PAUSE_S: Final = 5.0
#: Files of a folder, and bytes of them, that are sent before the next folder has its turn.
_FILES: Final = 100
_BYTES: Final = 4 << 20
#: Folders that are looked up at once.
_FOLDERS: Final = 1000
_ONCE: Final = replace(RetryLimits(), deadline=timedelta(0))
_ZERO: Final = timedelta(0)
_DIALECT: Final = "spool"


@dataclass(frozen=True, slots=True)
class _Whose:
    """Whose a folder is: a caller's, or no caller's (`refusal` says why).

    Attributes:
        run: its id; "" for a folder of no known run.
        owner: the user id that folder and files must have.
    """

    run: str
    owner: int
    caller: Caller | None = None
    refusal: str = ""


class RunSpools:
    """Sends what is spooled below `folder`. Used by one task."""

    def __init__(
        self,
        folder: Path,
        store: SpoolStore,
        intake: EventIntake,
        *,
        host: str,
        person: Caller | None = None,
        owner_of: Callable[[SpoolingRun], int] | None = None,
    ) -> None:
        """
        Args:
            person: whose events are that lie outside the folders of runs; None: they are refused.
            owner_of: the user id of the processes of a run; None: that of this process.
        """
        self._folder = folder
        self._store = store
        self._intake = intake
        self._host = host
        self._person = person
        self._owner_of = owner_of
        #: Folders of which it was logged that they wait.
        self._waiting: set[Path] = set()

    async def run_once(self) -> float:
        """Gives each folder one turn. Returns the seconds until the next round; 0 when there is more to send.

        Raises:
            UnavailableError: runs cannot be looked up; nothing is lost.
        """
        names = await asyncio.to_thread(self._names)
        me = os.geteuid()
        unowned = "it lies in no folder of a run" if self._person is None else ""
        outside = _Whose("", me, self._person, unowned)
        more = await self._turn(self._folder, outside)
        if OUTSIDE_RUNS in names:
            more |= await self._turn(self._folder / OUTSIDE_RUNS, outside)
        names = [name for name in names if name != OUTSIDE_RUNS]
        for start in range(0, len(names), _FOLDERS):
            part = names[start : start + _FOLDERS]
            known = await self._store.find(part)
            for name in part:
                run = known.get(name)
                more |= await self._turn(self._folder / name, self._find_owner(name, run, me))
                if run is not None and not run.active:
                    await asyncio.to_thread(_remove_if_empty, self._folder / name)
        return 0.0 if more else PAUSE_S

    def _find_owner(self, name: str, run: SpoolingRun | None, me: int) -> _Whose:
        if run is None:
            return _Whose("", me, None, f"no run '{name[:200]}' is known")
        owner = me if self._owner_of is None else self._owner_of(run)
        return _Whose(run.run, owner, caller_of_run(run.run, run.program.namespace))

    def _names(self) -> Sequence[str]:
        """Folders here, by name; a link is none."""
        with suppress(FileNotFoundError), os.scandir(self._folder) as found:
            return sorted(each.name for each in found if each.is_dir(follow_symlinks=False))
        return ()

    async def _turn(self, folder: Path, whose: _Whose) -> bool:
        """Sends the first files of a folder. Returns whether there may be more to send now. What goes wrong with one
        folder is logged, and is no reason not to look at the next.
        """
        try:
            whose = await asyncio.to_thread(_check_owner, folder, whose)
            return await self._drain(folder, whose)
        except FileNotFoundError:
            return False
        except OSError as exc:
            self._wait(folder, whose, f"it cannot be read or written: {exc.strerror}")
            return False

    async def _drain(self, folder: Path, whose: _Whose) -> bool:
        spool = Spool(folder, self._intake.clock, owner=whose.owner)
        files = spool.claims(_FILES)
        count = size = 0
        try:
            while size < _BYTES:
                kept = await asyncio.to_thread(next, files, None)
                if kept is None:
                    break
                outcome = await self._deliver(whose, kept.events)
                left = [each.event for each in outcome.left]
                await asyncio.to_thread(spool.settle, kept, left, outcome.refusals)
                await self._count(folder, whose, kept, outcome)
                if left:
                    self._wait(folder, whose, outcome.why)
                    return False
                count += 1
                size += kept.size
        finally:
            with suppress(ValueError):  # cancelled while its thread reads: its claim ends with the process
                files.close()
        self._waiting.discard(folder)
        return count >= _FILES or size >= _BYTES

    async def _deliver(self, whose: _Whose, events: Sequence[Event]) -> DeliveryResult:
        if whose.caller is None:
            return DeliveryResult(0, tuple(Refusal(n, "$", whose.refusal) for n in range(len(events))), ())
        encoded = [EncodedEvent(event, event_codec.encode(event)) for event in events]
        steps = delivery(encoded, _ONCE, random.random)
        answer: Answer | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            assert isinstance(step, Send), "without a deadline nothing is repeated"
            answer = await self._send(whose.caller, step.encoded)

    async def _send(self, caller: Caller, batch: Sequence[EncodedEvent]) -> Answer:
        events, body = [each.event for each in batch], sum(len(each.payload) for each in batch)
        try:
            taken = await self._intake.take(caller, events, body=body, dialect=_DIALECT)
        except (BodyExceededError, TooLargeError):
            return TooLarge(_ZERO)
        except (BacklogExceededError, RateExceededError, UnavailableError) as exc:
            return Unreachable(_ZERO, describe_failure(exc))
        return Refused(_ZERO, tuple(taken.denied)) if taken.denied else Accepted(_ZERO)

    async def _count(self, folder: Path, whose: _Whose, kept: SpooledFile, outcome: DeliveryResult) -> None:
        refused = len(outcome.refusals) + kept.dropped_lines
        if outcome.accepted:
            log.info("spool.sent", run=whose.run, count=outcome.accepted, folder=str(folder))
        if not refused:
            return
        reason = kept.unfit or next(
            (each.reason for each in (*outcome.refusals, *(exc for _, exc in kept.unreadable))), "it is no event"
        )
        log.error("spool.refused", run=whose.run, count=refused, file=str(kept.path), reason=reason)
        metrics, now = self._intake.metrics, self._intake.clock.now()
        metrics.add("spool_lines_refused_total", refused)
        metrics.add("events_rejected_total", refused, dialect=_DIALECT)
        try:
            await self._store.add_refused(RefusedLines(self._host, whose.run, refused, reason, now))
        except UnavailableError as exc:
            log.warning("spool.refusal_not_stored", run=whose.run, reason=describe_failure(exc))

    def _wait(self, folder: Path, whose: _Whose, why: str) -> None:
        if folder not in self._waiting:
            self._waiting.add(folder)
            log.warning("spool.waits", run=whose.run, folder=str(folder), why=why)


def _check_owner(folder: Path, whose: _Whose) -> _Whose:
    """No caller's, when the folder has another owner than expected.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise FileNotFoundError(folder)
    if found.st_uid == whose.owner:
        return whose
    reason = f"the folder belongs to user {found.st_uid}, not {whose.owner}"
    return replace(whose, owner=found.st_uid, caller=None, refusal=reason)


def _remove_if_empty(folder: Path) -> None:
    """Removes the folder of an ended run in which nothing is left but unfinished copies of its own files."""
    with suppress(OSError):
        entries = list(folder.iterdir())
        if all(each.name.endswith(".rest") for each in entries):
            for each in entries:
                each.unlink()
            folder.rmdir()
