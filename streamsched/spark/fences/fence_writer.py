"""Writes the fence of one run that was given up: in a process like the run's, in the logs of its program's outputs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog

from streamsched.codec.schedules.output import output_to_json
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.programs.secret import Secret
from streamsched.domain.schedules.process_job import PythonJob, SparkJob
from streamsched.ports.clock import Clock
from streamsched.process.os_user import OsUser
from streamsched.spark.child import Child
from streamsched.spark.command import RunEnvironment, environment, secret_values
from streamsched.spark.context import RUN_CONTENT, RUN_FILE
from streamsched.spark.fences.write_fences import LONGEST, ORDER
from streamsched.spark.files import RunFiles
from streamsched.spark.needs.preparation import Preparation, Prepared
from streamsched.store.runs.fences import FenceOrder, FenceStore

log = structlog.get_logger()

#: Seconds that the stores together may take.
_PATIENCE_S: Final = 60.0
#: Most bytes that are read of what the process prints.
_MOST: Final = 1 << 16
_CHILD: Final = "streamsched.spark.fences.write_fences"
#: The process is no run: it has ended, and its token with it.
_OF_RUNS: Final = (RUN_FILE, RUN_CONTENT, "STREAMSCHED_TOKEN", "STREAMSCHED_SPOOL")


@dataclass(frozen=True, slots=True)
class FenceWriter:
    """Belongs to a process of its own, as a runner does."""

    store: FenceStore
    clock: Clock
    runtime: RunEnvironment
    preparation: Preparation

    async def write(self, run: str) -> Mapping[str, str] | None:
        """Fences the run and stores what is known then: for each output why it is not fenced, "" when it is. None: the
        run needs no fence any more.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        order = await self.store.order(run)
        if order is None:
            return None
        kept_here = await self.store.raise_epochs(order)
        try:
            found = await self._in_process(order)
        except (ConfigurationError, OSError) as exc:
            found = {str(each.dataset): f"its program cannot be prepared: {exc}" for each in order.outputs}
        known = {name: "" if name in kept_here else why[:LONGEST] for name, why in found.items()}
        await self.store.store_result(run, known, now=self.clock.now())
        log.info("run.fenced", run=run, outputs=len(known), unfenced=sum(map(bool, known.values())))
        return known

    async def _in_process(self, order: FenceOrder) -> Mapping[str, str]:
        """Raises:
        ConfigurationError, OSError: the process cannot be started.
        """
        assignment = order.assignment
        runtime = self.runtime.for_program(assignment.program.ref)
        runtime.make_scratch()
        prepared = await self.preparation.prepare(assignment, runtime.user)
        said = await _output_of(_environ(prepared, runtime), runtime.user, order)
        return _answers(prepared.redaction.text(said), order)


def _environ(prepared: Prepared, runtime: RunEnvironment) -> Mapping[str, str]:
    """The variables of the program, also of one that runs in a cluster, without those of a run."""
    run_file = RunFiles(runtime.data_dir, prepared.assignment.run).run_file
    own: Mapping[str, str] = {}
    secrets: Mapping[str, Secret] = {}
    match prepared.assignment.program.executable:
        case SparkJob() as job:
            own, secrets = job.env, job.needs.secret_env
        case PythonJob() as job:
            own, secrets = job.env, job.secret_env
        case _:
            pass
    values = secret_values(secrets, prepared.secrets)
    found = {**environment(prepared.assignment, runtime, run_file), **own, **values}
    return {name: value for name, value in found.items() if name not in _OF_RUNS}


async def _output_of(environ: Mapping[str, str], user: OsUser | None, order: FenceOrder) -> str:
    """What the process prints within its time."""
    outputs = [output_to_json(each) for each in order.outputs]
    wanted = {"job": order.job, "attempt": order.attempt, "outputs": outputs}
    reading, writing = os.pipe()
    try:
        child = await Child.start(
            (sys.executable, "-m", _CHILD),
            env={**environ, ORDER: orjson.dumps(wanted).decode()},
            output=writing,
            user=user,
        )
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    kept = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.to_thread(_read_tail, reading, kept)
    except TimeoutError:
        log.warning("fence.not_answered", run=order.assignment.run, within_s=_PATIENCE_S)
    finally:
        await child.close()
    return bytes(kept).decode(errors="replace")


def _read_tail(reading: int, kept: bytearray) -> None:
    """Keeps the end of what is written to a pipe until all its writers have ended."""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while part := pipe.read(_MOST):
            kept += part
            del kept[:-_MOST]


def _answers(said: str, order: FenceOrder) -> Mapping[str, str]:
    """The answer for each output; of what cannot be read, that."""
    lines = said.strip().splitlines() or ["nothing"]
    answers: dict[str, Any] = {}
    for line in lines:
        with suppress(orjson.JSONDecodeError):
            found = orjson.loads(line)
            answers |= found if isinstance(found, dict) else {}
    unknown = f"the process that was to fence it said: {lines[-1]}"
    return {
        str(each.dataset): answer if isinstance(answer := answers.get(str(each.dataset)), str) else unknown
        for each in order.outputs
    }
