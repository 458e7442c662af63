"""Trials by faults: a site is opened, a load goes on, faults that a seed draws happen to it, and when all is quiet a
judge compares what came with what had to come.

    make trial KIND=installation BROKER=kafka SEED=1 N=20 ARGS='--bug no-fence'
    python -m tests.trial installation --broker kafka --seed 1 -n 20 --bug no-fence

Without KIND the kinds are listed; `python -m tests.trial KIND --help` has the options that a kind alone has. The last
line is `KIND`, counts and the verdict; the exit status is 0 when nothing is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import signal
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import structlog

from tests.support.judgement import Judgement

#: What has been doubled or wrong in the same way for that long is so, in seconds.
_WRONG_S: Final = 20.0
#: And when something is, ever something else, for that long.
_EVER_WRONG_S: Final = 60.0
_LOOK_S: Final = 0.1
#: By key, what a line says before the verdict. Numbers are added up over trials, lists of seconds are put together and
#: printed as median and maximum; of anything else the last stays.
Counts = Mapping[str, Any]


class Trial(ABC):
    """One trial. A kind has what is its own; what it does not need stays as it is here.

    Attributes:
        patience_s: seconds without any movement after which what is missing is lost.
    """

    patience_s = 90.0

    @asynccontextmanager
    async def site(self) -> AsyncIterator[None]:
        """What the trial stands on alone, until it is judged."""
        yield

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """What is sent while the faults happen. At the end of the block it stops, and what was sent is acknowledged."""
        yield

    async def faults(self) -> AsyncIterator[str]:
        """Does one after the other, as the seed draws them; each in words."""
        for nothing in ():
            yield nothing

    @abstractmethod
    async def judge(self) -> Judgement:
        """What is missing or wrong at this moment; asked again and again until all is well or nothing moves."""

    def progress(self) -> object:
        """Differs from before as long as something moves; beside the number of what is missing."""
        return None

    def counts(self) -> Counts:
        """What was done, once it is judged."""
        return {}


@dataclass(frozen=True, slots=True)
class Site:
    """What the trials of a run stand on together.

    Attributes:
        trial: makes the trial of a number, from 0.
        rounds: how many trials there are.
        close: judges all of them together, after the last.
        counts: what was done in all of them together.
        until_found: whether no trial begins after one in which something was wrong.
    """

    trial: Callable[[int], Trial]
    rounds: int = 1
    close: Callable[[Judgement], Awaitable[None]] | None = None
    counts: Callable[[], Counts] = dict
    until_found: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run was asked for.

    Attributes:
        folder: an empty one.
        variant: the part of the kind's name after its family.
        n: how many trials, kills or what the kind counts.
        own: the options that the kind alone has.
    """

    folder: Path
    variant: str
    broker: str
    seed: int
    n: int
    own: argparse.Namespace


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of kinds of trials; its variants are named `name-variant`.

    Attributes:
        n: how many of `of` there are by default.
        module: has `open_site(asked)`, a context manager that gives a `Site`; and `add_options(parser)` if the kind has
            options of its own.
        brokers: those that its log can be on; the first by default.
    """

    name: str
    n: int
    of: str
    says: str
    module: str
    variants: Sequence[str] = ("",)
    brokers: Sequence[str] = ("postgres",)

    def __str__(self) -> str:
        """Its line in the list."""
        name, variants = (f"{self.name}-…", f": {' '.join(self.variants)}") if self.variants[0] else (self.name, "")
        return f"  {name:<13}{self.n:>7} {self.of:<8} {self.says}{variants}\n"


_BOTH: Final = ("postgres", "kafka")
_KAFKA: Final = ("kafka",)
_STORES: Final = ("s3", "file", "plain", "delta", "iceberg")
_TAKEN: Final = ("one", "three", "cut", "apart")
_SPARKS: Final = ("fake", "standalone", "connect", "yarn")
KINDS: Final = (
    Kind("installation", 20, "trials", "every part killed and paused", "tests.faults.installation", brokers=_BOTH),
    Kind("soak", 60, "minutes", "whether anything grows", "tests.faults.soak", brokers=_BOTH),
    Kind("tasks", 20, "trials", "owners of tasks killed and paused", "tests.faults.tasks.trial", brokers=_BOTH),
    Kind("resharding", 5, "trials", "the same while lanes are moved", "tests.faults.tasks.resharding"),
    Kind("downtime", 200_000, "tasks", "a week without owners of tasks", "tests.faults.tasks.downtime"),
    Kind("outage", 3, "trials", "Kafka killed or cut off", "tests.faults.outages", _TAKEN, _KAFKA),
    Kind(
        "datacentre", 1, "loss", "a broker, the primary, a launcher cut off", "tests.faults.datacentre", ("",), _KAFKA
    ),
    Kind("restore", 1, "drill", "a backup restored beside a newer log", "tests.faults.restore", ("",), _KAFKA),
    Kind("upgrade", 1, "upgrade", "workers of two releases", "tests.faults.upgrade", brokers=_BOTH),
    Kind("dev", 6, "kills", "the whole of `streamsched dev` killed", "tests.faults.whole_dev"),
    Kind("graphs", 20, "kills", "graphs on it, with their runs killed too", "tests.faults.graphs"),
    Kind("spark", 100, "kills", "Spark programs around their submission", "tests.faults.spark.trial", _SPARKS),
    Kind("yarn", 4, "kills", "the roles as a service of a real YARN", "tests.faults.yarn_roles"),
    Kind("writers", 50, "kills", "writers and watchers killed", "tests.faults.writers.trial", _STORES),
    Kind("attempts", 200, "jobs", "replaced", "tests.faults.writers.attempt_trial", (*_STORES, "folder")),
    Kind("hostile", 200, "cases", "hostile content by every way in", "tests.hostile.run", brokers=_BOTH),
    Kind("bodies", 4, "clients", "the worst bodies for every route", "tests.hostile.bodies.trial"),
    Kind("year", 20, "days", "a year beside a model, N days on Spark", "tests.year.run"),
    Kind("dapr-real", 10, "kills", "Dapr's SDK and sidecar on our launchers", "tests.dapr_real.run"),
    Kind("dapr-go", 1, "run", "Dapr's Go SDK on an endpoint", "tests.dapr_real.go_sdk"),
)


@dataclass(frozen=True, slots=True)
class Request:
    """A kind of trial that was asked for, by its name, and its options."""

    name: str
    kind: Kind
    variant: str
    own: argparse.Namespace


@dataclass(slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        total: of all trials, with what was wrong with all of them together.
        words: on what was wrong.
    """

    request: Request
    total: Judgement = field(default_factory=Judgement)
    rounds: int = 0
    counts: dict[str, Any] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    @property
    def well(self) -> bool:
        return self.total.clean and self.rounds > 0

    def add(self, counts: Counts, verdict: Judgement) -> None:
        if not self.rounds:
            self.total = Judgement(verdict.kinds, verdict.allowed)
        self.rounds += 1
        self.total.add(verdict)
        self.words += verdict.words
        for key, value in counts.items():
            adds = isinstance(value, int | list) and not isinstance(value, bool)
            self.counts[key] = self.counts[key] + value if adds and key in self.counts else value

    def __str__(self) -> str:
        trials = (f"trials {self.rounds}",) if self.request.kind.of == "trials" else ()
        return " ".join((self.request.name, *trials, *_shown(self.counts), str(self.total)))


async def play(trial: Trial, say: Callable[[str], None]) -> tuple[Sequence[str], Judgement]:
    """One trial: what happened to it, and the verdict."""
    met: list[str] = []
    began = time.monotonic()
    async with trial.site():
        async with trial.load():
            async for fault in trial.faults():
                met.append(fault)
                say(f"  {time.monotonic() - began:5.1f} s: {fault}")
        return met, await settle(trial)


async def settle(trial: Trial) -> Judgement:
    """The verdict, as soon as all is well; or when nothing has moved for long, or something has been wrong for long.
    For a moment it may look so: not everything is read at the same instant.
    """
    moved = well = time.monotonic()
    before: object = None
    suspected: dict[str, float] = {}
    while True:
        verdict = await trial.judge()
        now = time.monotonic()
        if verdict.clean:
            return verdict
        if (state := (verdict.lost, trial.progress())) != before:
            moved, before = now, state
        suspected = {what: suspected.get(what, now) for what in verdict.excess}
        if not suspected:
            well = now
        limits = [moved + trial.patience_s, well + _EVER_WRONG_S, *(since + _WRONG_S for since in suspected.values())]
        if now > min(limits):
            return verdict
        await asyncio.sleep(_LOOK_S)


async def run(request: Request, folder: Path, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """All trials of a run, in an empty folder."""
    own, outcome = request.own, Outcome(request)
    until = time.monotonic() + 60 * own.minutes
    asked = Asked(folder, request.variant, own.broker, own.seed, own.n, own)
    async with import_module(request.kind.module).open_site(asked) as site:
        for number in range(site.rounds):
            trial, began = site.trial(number), time.monotonic()
            met, verdict = await play(trial, say)
            outcome.add(trial.counts(), verdict)
            if site.rounds > 1:
                shown, took = " ".join(_shown(trial.counts())), time.monotonic() - began
                say(f"trial {number} {_counted(met)}: {shown} took {took:.0f} s {verdict}")
            _say_each(verdict.words, say)
            if (site.until_found and not verdict.clean) or time.monotonic() > until:
                break
        if site.close is not None:
            await site.close(outcome.total)
            _say_each(outcome.total.words, say)
            outcome.words += outcome.total.words
        outcome.counts |= site.counts()
    return outcome


def _say_each(words: Sequence[str], say: Callable[[str], None]) -> None:
    for word in words:
        say(f"  {word}")


def _shown(counts: Counts) -> Iterator[str]:
    for key, value in counts.items():
        match value:
            case float():
                yield f"{key} {value:.1f} s"
            case list():
                waits = sorted(value) or [0.0]
                yield f"{key} p50 {waits[len(waits) // 2]:.1f} s max {waits[-1]:.1f} s"
            case _:
                yield f"{key} {value}"


def _counted(met: Sequence[str]) -> str:
    return ", ".join(f"{times} × {what}" if times > 1 else what for what, times in Counter(met).items())


def named_kinds() -> Mapping[str, tuple[Kind, str]]:
    """By what `KIND` is: the family and the variant."""
    return {f"{kind.name}-{each}".rstrip("-"): (kind, each) for kind in KINDS for each in kind.variants}


def requested(*words: str) -> Request:
    """What a command line asks for: a kind, then options.

    Raises:
        SystemExit: it asks for help, or for what there is not.
    """
    named = named_kinds()
    if not words or words[0] not in named:
        sys.stdout.write(f"{__doc__}\n  KIND          N by default\n{''.join(map(str, KINDS))}")
        sys.exit(0 if not words or words[0] in {"-h", "--help"} else f"there is no kind {words[0]}")
    kind, variant = named[words[0]]
    module = import_module(kind.module)
    parser = argparse.ArgumentParser(
        f"python -m tests.trial {words[0]}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--broker", choices=kind.brokers, default=kind.brokers[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-n", type=int, default=kind.n, help=f"{kind.of}; {kind.n} by default")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no trial begins after that long")
    parser.add_argument("--logs", type=Path, help="a folder for what the processes said")
    if hasattr(module, "add_options"):
        module.add_options(parser)
    return Request(words[0], kind, variant, parser.parse_args(words[1:]))


def main() -> None:
    request = requested(*sys.argv[1:])
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.disable(logging.CRITICAL)
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell in the background ignores the first
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="ss-trial-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        folder.chmod(0o755)  # for the user of PostgreSQL
        try:
            outcome = asyncio.run(run(request, folder, _say))
        finally:
            if request.own.logs is not None:
                _keep_logs(folder, request.own.logs)
    _say(str(outcome))
    sys.exit(not outcome.well)


def _keep_logs(folder: Path, to: Path) -> None:
    for log in folder.rglob("*.log"):
        kept = to / log.relative_to(folder)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, kept)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
