"""`python -m streamsched.spark.calls.with_environment FOLDER REQUIREMENTS COMMAND…`: executes the command with a Python
environment that has the packages of a requirements file.

An environment is named by the digest of the file and of this Python, made once below `FOLDER`, and used by all runs
with an equal file. A run that finds another one making it waits. What this Python has installed can be imported too,
after the environment's own packages.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path
from typing import Final

#: Says that an environment is complete.
_COMPLETE: Final = "complete"
#: Seconds after which an environment without use is removed.
_KEEP_S: Final = 30 * 86_400.0


def main(folder: Path, requirements: Path, command: list[str]) -> int:
    """Makes the environment and becomes the command; returns an exit code only when it cannot be made."""
    try:
        content = requirements.read_bytes()
    except OSError as exc:
        print(f"EnvironmentError: requirements: {requirements} cannot be read: {exc.strerror}", flush=True)  # noqa: T201
        return 1
    python = f"{sys.executable}\n{sys.version}\n"
    name = hashlib.sha256(python.encode() + content).hexdigest()[:32]
    made = folder / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not (made / _COMPLETE).exists():
        os.utime(lock)
        _remove_unused(folder, os.fstat(lock).st_mtime)
        code = _make(made, requirements)
        if code:
            return code
    (made / _COMPLETE).touch()  # its time says when it was last used
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.set_inheritable(lock, True)  # the command keeps it: an environment in use is not removed
    executable = str(made / "bin" / "python")
    real = "STREAMSCHED_DRIVER_PYTHON"  # where the other variable names the run's own executable
    environ = {**os.environ, real if real in os.environ else "PYSPARK_DRIVER_PYTHON": executable}
    if environ.get("PYSPARK_PYTHON") == sys.executable:
        environ["PYSPARK_PYTHON"] = executable
    os.execve(command[0], command, environ)
    raise AssertionError("unreachable")


def _make(made: Path, requirements: Path) -> int:
    shutil.rmtree(made, ignore_errors=True)  # a run was killed as it made it
    print(f"installing {requirements} into an environment, once", flush=True)  # noqa: T201
    subprocess.run([sys.executable, "-m", "venv", str(made)], check=True)
    python = str(made / "bin" / "python")
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    done = subprocess.run([*install, "-r", str(requirements)], check=False, cwd=requirements.parent)
    if done.returncode:
        print(f"EnvironmentError: pip could not install {requirements}", flush=True)  # noqa: T201
        return done.returncode
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
    lines = "".join(f"import site; site.addsitedir({each!r})\n" for each in site.getsitepackages())
    (Path(packages) / "zz_streamsched.pth").write_text(lines)
    (made / _COMPLETE).touch()
    return 0


def _remove_unused(folder: Path, now: float) -> None:
    """Removes environments that no run has used for long, nor uses. `now`: by the clock of the file system."""
    for each in folder.glob("*.lock"):
        made = each.with_suffix("")
        try:
            unused_s = now - (made / _COMPLETE).stat().st_mtime
        except OSError:
            continue
        if unused_s < _KEEP_S:
            continue
        with each.open("r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            (made / _COMPLETE).unlink()
            shutil.rmtree(made, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
