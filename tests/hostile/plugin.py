"""A plug-in that does what its configuration says: hangs, leaks, raises, answers absurdly.

It is installed by an entry point in a folder of its own, as a package would install it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from streamsched.domain.constraints.plugin import Question
from streamsched.domain.decisions.admission import ConstraintVerdict, Satisfied, Unsatisfiable, WaitFor, WaitUntil

_LEAKED: list[bytes] = []
_LEAK: Final = 1024 * 1024


def make(config: Mapping[str, Any]) -> Callable[[Question], ConstraintVerdict]:
    """The entry point. `{"do": name of an act, "at": "make" or "ask"}`."""
    act = ACTS.get(str(config.get("do", "nothing")), _nothing)
    if config.get("at") == "make":
        act()
    return lambda _: act()


def install(folder: Path) -> None:
    """Makes the plug-in one of the environment of processes that have the folder on their `PYTHONPATH`."""
    info = folder / "streamsched_hostile-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: streamsched-hostile\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[streamsched.constraints]\nhostile = tests.hostile.plugin:make\n")


def _nothing() -> ConstraintVerdict:
    return Satisfied("nothing is wrong")


def _hang() -> ConstraintVerdict:
    time.sleep(60)
    return Satisfied("it was late")


def _burn() -> ConstraintVerdict:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        pass
    return Satisfied("it was warm")


def _leak() -> ConstraintVerdict:
    _LEAKED.append(bytes(_LEAK))
    return Satisfied("what for")


def _raise() -> ConstraintVerdict:
    raise RuntimeError("x" * 100_000)


def _exit() -> ConstraintVerdict:
    sys.exit(3)


def _interrupt() -> ConstraintVerdict:
    raise KeyboardInterrupt


def _recurse() -> ConstraintVerdict:
    return _recurse()


def _text() -> ConstraintVerdict:
    return "yes"  # type: ignore[return-value]


def _none() -> ConstraintVerdict:
    return None  # type: ignore[return-value]


def _naive() -> ConstraintVerdict:
    return WaitUntil(datetime(2030, 1, 1), "no zone")  # noqa: DTZ001


def _never() -> ConstraintVerdict:
    return WaitUntil(datetime.max.replace(tzinfo=UTC), "the end of time")


def _long_ago() -> ConstraintVerdict:
    return WaitUntil(datetime.min.replace(tzinfo=UTC), "the beginning of time")


def _soon() -> ConstraintVerdict:
    return WaitUntil(datetime.now(UTC) + timedelta(microseconds=1), "a microsecond")


def _long_reason() -> ConstraintVerdict:
    return Unsatisfiable("\0\ud800" + "why? " * 1_000_000)


def _many_things() -> ConstraintVerdict:
    return WaitFor(tuple(map(str, range(100_000))), "all of them")


def _print() -> ConstraintVerdict:
    sys.stdout.write("flood " * 1_000_000)
    return Satisfied("it was said")


ACTS: Final[Mapping[str, Callable[[], ConstraintVerdict]]] = {
    act.__name__.removeprefix("_"): act
    for act in (
        _nothing,
        _hang,
        _burn,
        _leak,
        _raise,
        _exit,
        _interrupt,
        _recurse,
        _text,
        _none,
        _naive,
        _never,
        _long_ago,
        _soon,
        _long_reason,
        _many_things,
        _print,
    )
}
