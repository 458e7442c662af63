"""Clients of queues of tasks, for programs:

    from streamsched.tasks.client import Scheduler, Task

They are those that dialects add (`Part.clients`), imported at first use, so that a program names no dialect's folder.
"""

from __future__ import annotations

from typing import Any

from streamsched.parts import parts


def __getattr__(name: str) -> Any:
    """Raises `AttributeError` for what no dialect adds."""
    for part in parts():
        if name in part.clients:
            return part.load(part.clients[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
