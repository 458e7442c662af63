"""A network namespace with nothing but loopback: Dapr's scheduler listens on all addresses, whatever its flags say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

_INSIDE: Final = "STREAMSCHED_TEST_NAMESPACE"


def enter_namespace(module: str, arguments: Sequence[str]) -> bool:
    """Runs the module in a new namespace, ends this process with its exit code; False: not root, or not on Linux.

    True within that namespace.
    """
    if os.environ.get(_INSIDE):
        return True
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    within = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    command = (*within, sys.executable, "-m", module, *arguments)
    sys.exit(subprocess.run(command, check=False, env={**os.environ, _INSIDE: "1"}).returncode)
