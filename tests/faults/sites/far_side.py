"""A far side: a network namespace of its own with one wire to here for each thing it must reach, and wires that can be
cut. Needs root and `ip` (iproute2); nothing outside the namespace and its wires is touched, and both go with it.

A cut is silent, as a real one is: the link stays up, and what is sent goes to an unused hardware address. So either
direction can be cut alone, without a notification: TCP has to detect it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_NOBODY: Final = "02:00:00:00:00:fe"


class Direction(StrEnum):
    """What no longer arrives: what we send there, what is sent from there, or either."""

    THERE = "there"
    HERE = "here"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Wire:
    """One cable. `here` and `there` are its addresses; `device` names both of its ends, each on its side."""

    space: str
    device: str
    here: str
    there: str

    def cut(self, direction: Direction = Direction.BOTH) -> None:
        """From now on nothing passes in that direction."""
        if direction is not Direction.HERE:
            _ip(*_neighbour("replace", self.there, self.device), "lladdr", _NOBODY, "nud", "permanent")
        if direction is not Direction.THERE:
            _ip("-n", self.space, *_neighbour("replace", self.here, self.device), "lladdr", _NOBODY, "nud", "permanent")

    def heal(self) -> None:
        """Everything passes again."""
        _ip(*_neighbour("del", self.there, self.device), check=False)
        _ip("-n", self.space, *_neighbour("del", self.here, self.device), check=False)


@dataclass(frozen=True, slots=True)
class FarSide:
    """The namespace, and its wires in the order they were asked for."""

    name: str
    wires: Sequence[Wire]

    def command(self, *command: str) -> tuple[str, ...]:
        """What runs `command` over there."""
        return ("ip", "netns", "exec", self.name, *command)


def possible() -> bool:
    """Whether this process may make namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"ss-try-{os.getpid()}"
    made = _ip("netns", "add", name, check=False)
    if made.returncode == 0:
        _ip("netns", "del", name)
    return made.returncode == 0


def refuse_without_root() -> None:
    """Raises:
    SystemExit: this process may make no namespaces.
    """
    if not possible():
        raise SystemExit("this kind of trial needs root and iproute2")


@contextmanager
def far_side(wires: int) -> Iterator[FarSide]:
    """Makes one with so many wires; it is gone at the end, whatever still runs there."""
    number = os.getpid()
    name = f"ss-{number}"
    with ExitStack() as held:
        _ip("netns", "add", name)
        held.callback(_ip, "netns", "del", name, check=False)
        _ip("-n", name, "link", "set", "lo", "up")
        made = [_wire(name, number, nth) for nth in range(wires)]
        for wire in made:
            held.callback(_ip, "link", "del", wire.device, check=False)
        yield FarSide(name, made)


def _wire(space: str, number: int, nth: int) -> Wire:
    """A pair of devices with addresses out of 10.64.0.0/10, a few of them for each process number."""
    net = f"10.{64 + (number >> 8) % 64}.{number % 256}"
    wire = Wire(space, f"ss{number % 10**7}x{nth}", f"{net}.{4 * nth + 1}", f"{net}.{4 * nth + 2}")
    _ip("link", "add", wire.device, "type", "veth", "peer", "name", wire.device, "netns", space)
    for address, on in ((wire.here, ()), (wire.there, ("-n", space))):
        _ip(*on, "address", "add", f"{address}/30", "dev", wire.device)
        _ip(*on, "link", "set", wire.device, "up")
    return wire


def _neighbour(what: str, address: str, device: str) -> tuple[str, ...]:
    return ("neighbour", what, address, "dev", device)


def _ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(("ip", *arguments), check=check, capture_output=True, text=True, timeout=20)
