"""One or three Kafka brokers on loopback in KRaft mode, as local processes.

A cluster is a folder: `node-1`, `node-2` … each with its `server.properties`, data, `kafka.log` and `pid`. Any process
with access to the folder can stop the cluster; a new start continues with its data.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from compose.kafka.distribution import LOGGING, cache_folder, jars, java
from compose.kafka.properties import Address, Shape, server_properties
from compose.ports import free_ports

READY_SECONDS: Final = 90.0
STOP_SECONDS: Final = 20.0
HEAP_MB: Final = 400
_STARTED: Final = "Kafka Server started"


class NotReadyError(Exception):
    """A node ended, or was not ready in time; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes of a folder."""

    folder: Path
    shape: Shape

    @property
    def servers(self) -> str:
        """`host:port,host:port`."""
        return ",".join(f"{node.host}:{node.port}" for node in self.shape.nodes)

    @property
    def url(self) -> str:
        """For `STREAMSCHED_BROKER_URL`, of a cluster without security."""
        return f"kafka://{self.servers}/"

    @property
    def numbers(self) -> Sequence[int]:
        """The nodes, from 1."""
        return range(1, len(self.shape.nodes) + 1)

    def start(self, *numbers: int) -> None:
        """Starts those of these nodes (default: all) that do not run, and returns when they are ready.

        Raises:
            MissingError: Java, or Maven to download Kafka, is not installed.
            NotReadyError: a node did not become ready.
        """
        begun = [(number, self._launch(number)) for number in numbers or self.numbers if self.pid(number) is None]
        for number, (process, already) in begun:
            self._await_ready(number, process, already)

    def stop(self, *numbers: int) -> None:
        """Stops these nodes (default: all) with SIGTERM, and kills them after a timeout."""
        self._end(numbers or self.numbers, signal.SIGTERM, STOP_SECONDS)
        self.kill(*numbers)

    def kill(self, *numbers: int) -> None:
        """Kills these nodes (default: all) with SIGKILL."""
        self._end(numbers or self.numbers, signal.SIGKILL, STOP_SECONDS)

    def pid(self, number: int) -> int | None:
        """The process of a node, if it runs."""
        with suppress(FileNotFoundError, ValueError):
            pid = int((self._home(number) / "pid").read_text())
            if str(self._home(number)) in _command(pid):  # the pid may have been reused
                return pid
        return None

    def _home(self, number: int) -> Path:
        return self.folder / f"node-{number}"

    def _launch(self, number: int) -> tuple[subprocess.Popen[bytes], int]:
        home = self._home(number)
        home.mkdir(parents=True, exist_ok=True)
        properties = home / "server.properties"
        properties.write_text(server_properties(self.shape, number, home / "data"), encoding="utf-8")
        if not (home / "data" / "meta.properties").exists():
            self._format(properties)
        log = home / "kafka.log"
        already = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            process = subprocess.Popen(
                (*self.shape.nodes[number - 1].within, *_kafka(HEAP_MB), "kafka.Kafka", str(properties)),
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        (home / "pid").write_text(str(process.pid))
        return process, already

    def _format(self, properties: Path) -> None:
        """Formats the data folder. All nodes of a cluster share an id, stored in the cluster's folder."""
        identity = self.folder / "cluster-id"
        if not identity.exists():
            # 16 bytes in base64, as Kafka requires; an id that starts with a dash would be parsed as an option
            identity.write_text(base64.urlsafe_b64encode(b"s" + uuid4().bytes[1:]).rstrip(b"=").decode())
        users = self.shape.security.users.items() if self.shape.security else ()
        scram = [
            part
            for name, password in users
            for part in ("--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]")
        ]
        format_it = ("kafka.tools.StorageTool", "format", "-t", identity.read_text(), "-c", str(properties), *scram)
        done = subprocess.run((*_kafka(128), *format_it), capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise NotReadyError(f"Kafka's storage could not be formatted:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")

    def _await_ready(self, number: int, process: subprocess.Popen[bytes], already: int) -> None:
        log = self._home(number) / "kafka.log"
        deadline = time.monotonic() + READY_SECONDS
        while _STARTED.encode() not in log.read_bytes()[already:]:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                tail = log.read_bytes()[already:].decode(errors="replace")[-3000:]
                raise NotReadyError(f"Kafka node {number} did not start; the end of {log}:\n{tail}")
            time.sleep(0.05)

    def _end(self, numbers: Iterable[int], how: signal.Signals, seconds: float) -> None:
        pids = [pid for number in numbers if (pid := self.pid(number)) is not None]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, how)
        deadline = time.monotonic() + seconds
        while any(map(_alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.02)


def free_addresses(nodes: int) -> tuple[Address, ...]:
    """Addresses with free ports."""
    ports = free_ports(2 * nodes)
    return tuple(Address(*pair) for pair in zip(ports[::2], ports[1::2], strict=True))


def _kafka(heap_mb: int) -> tuple[str, ...]:
    """Java with Kafka's classes: a small heap, the serial collector, and only fast JIT compilation."""
    return (
        java(),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        f"-Dlog4j2.configurationFile={LOGGING}",
        "-cp",
        f"{jars(cache_folder(os.environ))}/*",
    )


def _alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return bool(_command(pid))


def _command(pid: int) -> str:
    """The command line of a process; empty when there is none, or it has ended."""
    listed = subprocess.run(
        ("ps", "-ww", "-o", "stat=,command=", "-p", str(pid)), capture_output=True, text=True, check=False
    )
    state, _, command = listed.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else command
