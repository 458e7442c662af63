"""What a local cluster consists of, as lines of at most 80 columns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from compose.cluster.local_cluster import LocalCluster

WIDTH = 80


def report(cluster: LocalCluster) -> Iterator[str]:
    """The table of the parts, and how to use and stop them."""
    yield _row("part", "what it does", "where", "pid")
    yield _row("kafka", "the log", cluster.kafka.servers, cluster.kafka.pid(1))
    yield _row("postgres", "schedules, jobs, runs, history", "a socket", _postmaster(cluster.folder.postgres))
    for part in cluster.parts.values():
        yield _row(part.name, part.purpose, part.where, part.pid)
    yield ""
    yield from _pointer("use it", f". {_short(cluster.folder.environment)} && streamsched doctor")
    yield from _pointer("logs", f"{_short(cluster.folder.logs)}/")
    yield from _pointer("stop it", f"Ctrl-C, or kill {os.getpid()}; data stays for the next start")


def _row(name: str, purpose: str, where: str, pid: object) -> str:
    return f"{name:<13} {purpose:<31} {where:<26} {pid or '':>7}".rstrip()


def _pointer(title: str, text: str) -> Iterator[str]:
    """On one line, or the text below its title if that is too long; a path is never broken."""
    if len(title) + 2 + len(text) <= WIDTH:
        yield f"{title}: {text}"
    else:
        yield f"{title}:"
        yield f"  {text}"


def _short(path: Path) -> str:
    """Relative to the working directory, if it is below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _postmaster(folder: Path) -> str:
    return (folder / "postmaster.pid").read_text().splitlines()[0]
