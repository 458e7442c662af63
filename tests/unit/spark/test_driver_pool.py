"""Which drivers wait, which is given, and which end; the processes are doubles, and the clock is set."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsched.spark.warm import drivers as pool
from streamsched.spark.warm.drivers import IDLE_S, Drivers
from streamsched.spark.warm.messages import Message, file_of, pair, receive, send
from streamsched.spark.warm.waiting_process import WaitingProcess


class Double(WaitingProcess):
    """A driver whose other end the test holds."""

    made: list[Double]

    def __init__(self, described: dict[str, Any]) -> None:
        self.socket, self.theirs = pair()
        self.socket.setblocking(False)
        self.ready = False
        self.described = dict(described)
        self.process = self
        self.killed = self.over = False
        self.made.append(self)

    def kill(self) -> None:
        self.killed = True

    def has_ended(self) -> bool:
        return self.over

    def asked(self) -> bool:
        """Whether a run was given to it."""
        self.theirs.settimeout(0.2)
        message = receive(self.theirs)
        while message is not None and "key" not in message.content:  # first its description
            message.close()
            message = receive(self.theirs)
        if message is None:
            return False
        message.close()
        return True

    def gone(self) -> bool:
        """Whether the pool has ended it."""
        return self.socket.fileno() < 0


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Bench:
    """A pool, and a verb to move each thing around it."""

    def __init__(self, folder: Path, clock: Clock, most: int) -> None:
        self.pool = Drivers(most)
        self.folder = folder
        self.clock = clock

    def learn(self, key: str, *libraries: str) -> None:
        self.pool.learn(key, {"folder": str(self.folder), "libraries": libraries, "key": key})

    def say(self, driver: Double, message: dict[str, Any]) -> None:
        at = driver.socket.fileno()
        send(driver.theirs, message)
        self.pool.read_answer(self.pool.sockets()[at], at)

    def ready(self, after: float = 0.0) -> Double:
        """The driver that is prepared now, which is ready."""
        self.clock.now += after
        before = len(Double.made)
        self.pool.sweep()
        [driver] = Double.made[before:]
        self.say(driver, {"ready": True})
        return driver

    def take(self, key: str) -> str:
        control, _ = socket.socketpair()
        request = Message({"key": key}, (control.detach(), file_of(None), file_of(None)))
        try:
            return self.pool.take(key, request)
        finally:
            request.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    Double.made = []
    monkeypatch.setattr(pool, "time", clock)
    monkeypatch.setattr(pool, "_Driver", Double)
    monkeypatch.setattr(pool, "available_memory", lambda: 1 << 40)
    yield clock
    for each in Double.made:
        each.theirs.close()
        each.socket.close()


def test_a_driver_is_given_once_and_the_next_is_prepared_later(tmp_path: Path, clock: Clock) -> None:
    bench = Bench(tmp_path / "drivers", clock, 1)
    bench.learn("a")
    first = bench.ready()

    assert [bench.take("a"), bench.take("a")] == ["", "its next driver is not ready yet"]
    assert first.asked()
    bench.pool.sweep()
    assert len(Double.made) == 1
    assert bench.ready(after=10.0) is not first
    assert (tmp_path / "drivers").stat().st_mode & 0o777 == 0o700
    assert not list((tmp_path / "drivers").iterdir())


def test_a_driver_that_has_ended_is_passed_over(tmp_path: Path, clock: Clock) -> None:
    bench = Bench(tmp_path, clock, 2)
    bench.learn("a")
    first, second = bench.ready(), bench.ready(after=10.0)
    first.theirs.close()

    assert bench.take("a") == ""
    assert second.asked()
    assert bench.take("a") == "its next driver is not ready yet"


def test_profiles_share_the_limit_and_the_oldest_goes(tmp_path: Path, clock: Clock) -> None:
    bench = Bench(tmp_path, clock, 2)
    bench.learn("a")
    a = [bench.ready(), bench.ready(after=10.0)]
    bench.pool.sweep()
    assert len(Double.made) == 2

    bench.learn("b")
    b = bench.ready()
    assert [each.gone() for each in a] == [False, True]
    bench.learn("c")
    c = bench.ready()

    assert [a[0].gone(), b.gone(), c.gone()] == [True, False, False]
    assert bench.take("a") == "no driver is prepared for its settings"


def test_drivers_that_nobody_uses_end(tmp_path: Path, clock: Clock) -> None:
    bench = Bench(tmp_path, clock, 1)
    bench.learn("a")
    driver = bench.ready()
    clock.now += IDLE_S - 1
    bench.pool.sweep()
    assert not driver.gone()

    clock.now += 2
    bench.pool.sweep()

    assert driver.gone()
    assert not driver.killed  # it stops its context
    assert bench.take("a") == "no driver is prepared for its settings"


def test_libraries_that_do_not_bear_a_fork_are_left_to_the_program(tmp_path: Path, clock: Clock) -> None:
    bench = Bench(tmp_path, clock, 1)
    bench.learn("a", "threads")
    bench.pool.sweep()
    bench.say(Double.made[0], {"refused": "its libraries start threads", "libraries": True})

    second = bench.ready(after=10.0)
    bench.learn("a", "threads")

    assert (Double.made[0].described["libraries"], second.described["libraries"]) == (["threads"], [])
    assert bench.take("a") == ""
    assert bench.ready(after=10.0).described["libraries"] == []


def test_a_driver_that_cannot_be_prepared_is_a_reason_and_is_tried_later(tmp_path: Path, clock: Clock) -> None:
    bench = Bench(tmp_path, clock, 1)
    bench.learn("a")
    bench.pool.sweep()
    bench.say(Double.made[0], {"refused": "the JVM does not start: no such jar", "libraries": False})

    assert bench.take("a") == "no driver can be prepared: the JVM does not start: no such jar"
    bench.learn("a")
    bench.pool.sweep()
    assert len(Double.made) == 1
    clock.now += IDLE_S + 1
    bench.pool.sweep()
    bench.learn("a")
    bench.ready()
    assert bench.take("a") == ""


def test_without_memory_none_is_prepared(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "available_memory", lambda: 512 << 20)
    bench = Bench(tmp_path, clock, 1)
    bench.learn("a")
    bench.pool.sweep()

    assert not Double.made
    assert bench.take("a") == "its next driver is not ready yet"
