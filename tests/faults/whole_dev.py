"""The whole of `streamsched dev` killed again and again while events come: every satisfaction runs, and runs once.

Every fifth event of a name starts a program that notes its run. An emitter with a spool goes on while no server runs.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streamsched.emit import Emitter
from streamsched.emit.draft import custom
from tests.faults.sites.dev_site import DevSite
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial

NAMES = 12
TIMES = 5
APP = """
from streamsched import App, event

app = App("torture")
note = app.bash("note", "echo $STREAMSCHED_RUN_ID >> {ran}")
for n in range({names}):
    app.schedule(f"s{{n}}", note, when=event(f"e{{n}}", {times}), overlap="queue")
"""


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    with DevSite(asked.folder) as dev:
        yield Site(lambda _: DevTrial(asked, dev))


class DevTrial(Trial):
    """One installation and its kills, PostgreSQL's with every second."""

    patience_s = 300.0

    def __init__(self, asked: Asked, dev: DevSite) -> None:
        self._asked, self._dev, self._ran = asked, dev, asked.folder / "ran"
        self._emitted: Counter[int] = Counter()

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        self._dev.deploy(APP.format(ran=self._ran, names=NAMES, times=TIMES))
        enough = threading.Event()
        emitting = threading.Thread(target=self._emit, args=(enough,))
        emitting.start()
        try:
            yield
        finally:
            enough.set()
            emitting.join()

    async def faults(self) -> AsyncIterator[str]:
        for kill in range(self._asked.n):
            await asyncio.sleep(random.Random(f"{self._asked.seed}.{kill}").uniform(1.0, 6.0))
            self._dev.kill(postgres=kill % 2 == 1)
            yield "killed, PostgreSQL too" if kill % 2 else "killed"

    async def judge(self) -> Judgement:
        verdict, runs = Judgement(), self._dev.runs()
        found = self._ran.read_text().split() if self._ran.exists() else []
        verdict.compare("runs", sorted(self._wanted()), sorted(found))
        if open_ := [each["id"] for each in runs if not each["endedAt"]]:
            verdict.miss(f"the ends of {open_[:5]}", len(open_))
        return verdict

    def progress(self) -> object:
        return self._ran.stat().st_size if self._ran.exists() else 0

    def counts(self) -> Counts:
        return {"kills": self._dev.killed, "jobs": len(self._wanted())}

    def _wanted(self) -> list[str]:
        return [
            f"default.torture.s{name}.1.{sequence}.r1"
            for name, count in self._emitted.items()
            for sequence in range(1, count // TIMES + 1)
        ]

    def _emit(self, enough: threading.Event) -> None:
        dev, rng = self._dev.process, random.Random(self._asked.seed)
        spool = dev.state / "spool" / "outside-runs"
        with Emitter(self._dev.url, source="torture", spool=spool, token=dev.token) as emitter:
            while not enough.wait(0.05):
                name = rng.randrange(NAMES)
                emitter.emit(custom(f"e{name}"))
                self._emitted[name] += 1
