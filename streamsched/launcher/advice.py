"""Advice: plug-ins are asked in threads of their own, for a short time, and what they say is kept for the next ruling.

Whatever a plug-in does (raises, answers nonsense, never comes back), the launcher goes on; the job that asked waits,
and says why.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, get_args

import structlog

from streamsched.domain.admission import Opinion, Verdict, WaitFor
from streamsched.domain.docket import Ruling, Wait
from streamsched.domain.errors import InvalidError, UnavailableError
from streamsched.domain.plugin import PlugIn, Question
from streamsched.ports.clock import Clock
from streamsched.ports.jobs import Decisions
from streamsched.ports.plugins import Answer, Maker, made

log = structlog.get_logger()

#: Seconds that a plug-in is listened to.
PATIENCE: Final = 2.0
#: So many calls of one plug-in at once; one that never comes back counts for ever.
_CALLS: Final = 8


class Advice:
    """Belongs to one launcher."""

    def __init__(
        self,
        known: Mapping[str, Callable[[], Maker]],
        decisions: Decisions,
        clock: Clock,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self._known = known
        self._decisions = decisions
        self._clock = clock
        self._patience = patience
        self._answers: dict[PlugIn, Answer] = {}
        self._calls: Counter[str] = Counter()
        self._asking: dict[tuple[str, PlugIn], asyncio.Task[None]] = {}
        self._said: dict[str, dict[PlugIn, Opinion]] = {}

    @property
    def opinions(self) -> Mapping[str, Mapping[PlugIn, Opinion]]:
        """What was said, by job."""
        return self._said

    def heed(self, rulings: Sequence[Ruling], now: datetime) -> None:
        """Asks for those that wait for somebody to be asked, and forgets what counts no more."""
        for ruling in rulings:
            if not isinstance(ruling, Wait):
                self._said.pop(ruling.job, None)
                continue
            for plugin, question in ruling.asks:
                key = ruling.job, plugin
                if key not in self._asking:
                    task = asyncio.create_task(self._ask(plugin, question))
                    self._asking[key] = task
                    task.add_done_callback(lambda _, key=key: self._asking.pop(key, None))
        for job, said in list(self._said.items()):
            if not any(opinion.counts(now) for opinion in said.values()):
                del self._said[job]

    async def settled(self) -> None:
        """Returns when everybody who is being asked has answered or run out of time."""
        while self._asking:
            await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def _ask(self, plugin: PlugIn, question: Question) -> None:
        verdict, answered = await self._verdict(plugin, question)
        if not answered:
            log.warning("plugin.silent", plugin=plugin.name, job=question.job, reason=verdict.why)
        self._said.setdefault(question.job, {})[plugin] = Opinion(verdict, self._clock.now(), answered)
        try:
            await self._decisions.look(question.job)
        except UnavailableError as exc:
            log.warning("plugin.unavailable", job=question.job, reason=str(exc))  # it looks again by itself

    async def _verdict(self, plugin: PlugIn, question: Question) -> tuple[Verdict, bool]:
        what = (f"plug-in {plugin.name}",)
        if self._calls[plugin.name] >= _CALLS:
            return WaitFor(what, f"{what[0]} is not asked: {_CALLS} calls of it have not come back"), False
        try:
            async with asyncio.timeout(self._patience):
                verdict = await self._called(plugin, question)
        except TimeoutError:
            return WaitFor(what, f"{what[0]} did not answer within {self._patience:g} s"), False
        except InvalidError as exc:
            return WaitFor(what, f"{what[0]} cannot be asked: {exc}"), False
        except Exception as exc:  # noqa: BLE001 - it may be anybody's code; the launcher goes on whatever it raises
            return WaitFor(what, f"{what[0]} failed: {type(exc).__name__}: {exc}"), False
        if not isinstance(verdict, get_args(Verdict)):
            return WaitFor(what, f"{what[0]} answered with a {type(verdict).__name__}, which is no verdict"), False
        return verdict, True

    async def _called(self, plugin: PlugIn, question: Question) -> Verdict:
        """What it says, from a thread that nobody waits for at the end."""
        loop = asyncio.get_running_loop()
        came: asyncio.Future[Verdict] = loop.create_future()

        def deliver(verdict: Verdict | None, raised: BaseException | None) -> None:
            self._calls[plugin.name] -= 1
            if came.done():
                return
            if raised is None:
                came.set_result(verdict)  # type: ignore[arg-type]
            else:
                came.set_exception(raised)

        def call() -> None:
            verdict, raised = None, None
            try:
                verdict = self._made(plugin)(question)
            except BaseException as exc:  # noqa: BLE001 - see above; it is raised where it is waited for
                raised = exc if isinstance(exc, Exception) else RuntimeError(repr(exc))
            if not loop.is_closed():
                loop.call_soon_threadsafe(deliver, verdict, raised)

        self._calls[plugin.name] += 1
        threading.Thread(target=call, name=f"plugin-{plugin.name}", daemon=True).start()
        return await came

    def _made(self, plugin: PlugIn) -> Answer:
        answer = self._answers.get(plugin)
        if answer is None:
            answer = self._answers[plugin] = made(plugin, self._known)
        return answer
