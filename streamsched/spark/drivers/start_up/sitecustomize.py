"""Python imports this when it starts, as the driver of a standalone cluster: it then ends when its JVM ends.

`run kill` makes the cluster's worker end the driver, which to the worker is the JVM alone. Its Python is a child that
notices nothing before it next asks the JVM: it would sleep, compute or write on. No setting of Spark names a command
for Python with arguments, and no file of the launcher is on the worker; but PYTHONPATH may name a folder that is not
there. So this works where the worker has streamsched at the launcher's path, and does no harm elsewhere.

Standard library only, of any Python 3. Then does what the machine's own `sitecustomize` does.
"""

import os
import signal
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_PR_SET_PDEATHSIG = 1
#: Our variable: of the driver's own Python alone, not of the processes that it starts.
_ASKED = "STREAMSCHED_ENDS_WITH_JVM"
#: PySpark's variable, of the Python that a JVM starts as its program; the JVM's other Pythons have none.
_OF_PROGRAM = "PYSPARK_GATEWAY_PORT"


def _end_with_parent():
    """The kernel kills this process when the thread that started it ends: in Spark it waits for this process."""
    parent = os.getppid()
    import ctypes  # noqa: PLC0415 - where it is needed

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended just before
        os.kill(os.getpid(), signal.SIGKILL)


def _import_next():
    """The `sitecustomize` that this one hides, if there is one."""
    here = Path(__file__).resolve().parent
    others = [each for each in sys.path if Path(each).resolve() != here]
    found = PathFinder.find_spec("sitecustomize", others)
    if found is not None and found.loader is not None:
        module = module_from_spec(found)
        sys.modules["sitecustomize"] = module
        found.loader.exec_module(module)


if os.environ.pop(_ASKED, "") and _OF_PROGRAM in os.environ and sys.platform == "linux":
    _end_with_parent()
_import_next()
