"""Calls plug-ins in threads of their own, with a timeout, and keeps their verdicts for the next decision.

Whatever a plug-in does (raises, returns something else, never returns), the launcher continues; the job waits, with the
failure as its reason.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Final, assert_never, get_args

import structlog

from streamsched.domain.constraints.plugin import PlugIn, Question
from streamsched.domain.decisions.admission import (
    ConstraintVerdict,
    PluginVerdict,
    Satisfied,
    Unsatisfiable,
    WaitFor,
    WaitUntil,
)
from streamsched.domain.decisions.decision import Decision, Wait
from streamsched.domain.errors import InvalidError, UnavailableError, describe_failure, storable_text
from streamsched.domain.limits import clamp_instant
from streamsched.launcher.plugins import Answer, Maker, make_plugin
from streamsched.ports.clock import Clock
from streamsched.store.jobs.decisions import DecisionStore

log = structlog.get_logger()

#: Seconds after which a call is abandoned.
TIMEOUT: Final = 2.0
#: Most names kept of `WaitFor.what`.
_NAMED: Final = 100
#: Most calls of one plug-in at a time; one that never returns counts until the process ends.
_CALLS: Final = 8


class PluginEvaluator:
    """Belongs to one launcher."""

    def __init__(
        self,
        plugins: Mapping[str, Callable[[], Maker]],
        decisions: DecisionStore,
        clock: Clock,
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        self._plugins = plugins
        self._decisions = decisions
        self._clock = clock
        self._timeout = timeout
        self._answers: dict[PlugIn, Answer] = {}
        self._calls: Counter[str] = Counter()
        self._calling: dict[tuple[str, PlugIn], asyncio.Task[None]] = {}
        self._verdicts: dict[str, dict[PlugIn, PluginVerdict]] = {}

    @property
    def verdicts(self) -> Mapping[str, Mapping[PlugIn, PluginVerdict]]:
        """The latest verdicts by job."""
        return self._verdicts

    def evaluate(self, decisions: Sequence[Decision], now: datetime) -> None:
        """Starts the calls that decisions ask for, and drops verdicts of jobs that no longer wait or that expired."""
        for decision in decisions:
            if not isinstance(decision, Wait):
                self._verdicts.pop(decision.job, None)
                continue
            for plugin, question in decision.asks:
                key = decision.job, plugin
                if key not in self._calling:
                    task = asyncio.create_task(self._evaluate(plugin, question))
                    self._calling[key] = task
                    task.add_done_callback(lambda _, key=key: self._calling.pop(key, None))
        for job, verdicts in list(self._verdicts.items()):
            if not any(verdict.counts(now) for verdict in verdicts.values()):
                del self._verdicts[job]

    async def wait_until_settled(self) -> None:
        """Returns when all calls in progress have returned or timed out."""
        while self._calling:
            await asyncio.gather(*self._calling.values(), return_exceptions=True)

    async def _evaluate(self, plugin: PlugIn, question: Question) -> None:
        verdict, answered = await self._verdict(plugin, question)
        if not answered:
            log.warning("plugin.call_failed", plugin=plugin.name, job=question.job, reason=verdict.why)
        self._verdicts.setdefault(question.job, {})[plugin] = PluginVerdict(verdict, self._clock.now(), answered)
        try:
            await self._decisions.recheck(question.job)
        except UnavailableError as exc:
            log.warning("plugin.recheck_failed", job=question.job, reason=str(exc))  # the job is rechecked by the sweep

    async def _verdict(self, plugin: PlugIn, question: Question) -> tuple[ConstraintVerdict, bool]:
        what = (f"plug-in {plugin.name}",)
        if self._calls[plugin.name] >= _CALLS:
            return WaitFor(what, f"{what[0]} is not asked: {_CALLS} calls of it have not come back"), False
        try:
            async with asyncio.timeout(self._timeout):
                history = await self._decisions.past_runs(question.program)
                verdict = await self._call(plugin, replace(question, history=history))
        except TimeoutError:
            return WaitFor(what, f"{what[0]} did not answer within {self._timeout:g} s"), False
        except InvalidError as exc:
            return WaitFor(what, f"{what[0]} cannot be asked: {describe_failure(exc)}"), False
        except Exception as exc:  # noqa: BLE001 - third-party code; the launcher continues whatever it raises
            return WaitFor(what, f"{what[0]} failed: {describe_failure(exc)}"), False
        if not isinstance(verdict, get_args(ConstraintVerdict)):
            return WaitFor(what, f"{what[0]} answered with a {type(verdict).__name__}, which is no verdict"), False
        try:
            return _make_storable(verdict), True
        except (TypeError, ValueError, ArithmeticError) as exc:
            return WaitFor(what, f"{what[0]} answered with a verdict that says nothing: {describe_failure(exc)}"), False

    async def _call(self, plugin: PlugIn, question: Question) -> ConstraintVerdict:
        """Calls it in a daemon thread, which does not delay the end of the process."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[ConstraintVerdict] = loop.create_future()

        def deliver(verdict: ConstraintVerdict | None, raised: BaseException | None) -> None:
            self._calls[plugin.name] -= 1
            if result.done():
                return
            if raised is None:
                result.set_result(verdict)  # type: ignore[arg-type]
            else:
                result.set_exception(raised)

        def call() -> None:
            verdict, raised = None, None
            try:
                verdict = self._make(plugin)(question)
            except BaseException as exc:  # noqa: BLE001 - raised again in the event loop
                raised = exc if isinstance(exc, Exception) else RuntimeError(repr(exc))
            if not loop.is_closed():
                loop.call_soon_threadsafe(deliver, verdict, raised)

        self._calls[plugin.name] += 1
        threading.Thread(target=call, name=f"plugin-{plugin.name}", daemon=True).start()
        return await result

    def _make(self, plugin: PlugIn) -> Answer:
        answer = self._answers.get(plugin)
        if answer is None:
            answer = self._answers[plugin] = make_plugin(plugin, self._plugins)
        return answer


def _make_storable(verdict: ConstraintVerdict) -> ConstraintVerdict:
    """A verdict of third-party code, with texts and a time that can be stored and compared.

    Raises:
        TypeError, ValueError, ArithmeticError: a field holds something else.
    """
    if not isinstance(verdict.why, str):  # pyright: ignore[reportUnnecessaryIsInstance] - of third-party code
        raise TypeError(f"the reason is a {type(verdict.why).__name__}")
    why = storable_text(verdict.why)
    match verdict:
        case WaitUntil(at=at):
            # A plug-in may name anything.
            if not isinstance(at, datetime) or at.tzinfo is None:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"the time is no instant with an offset from UTC: {at!r}")
            return WaitUntil(clamp_instant(at).astimezone(UTC), why)
        case WaitFor(what=what):
            return WaitFor(tuple(storable_text(str(each)) for each in islice(what, _NAMED)), why)
        case Satisfied() | Unsatisfiable():
            return replace(verdict, why=why)
        case _:
            assert_never(verdict)
