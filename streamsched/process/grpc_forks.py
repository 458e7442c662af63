"""gRPC's handlers of `fork`, turned off: with them a child of a process that uses gRPC may crash before it executes its
program (up to 3 of 100 with channels and servers of threads).
"""

from __future__ import annotations

import os


def disable_grpc_fork_handlers() -> None:
    """Call it before the process uses gRPC for the first time. What the user has set stays. Children may use gRPC after
    they have executed a program; none uses its parent's channels.
    """
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
