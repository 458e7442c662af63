"""When a process with imported libraries may not be used: what changed, and what does not bear a fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamsched.spark.warm.libraries import Surroundings, Versions, loaded_libraries


def _stamp(path: Path) -> tuple[int, int]:
    return path.stat().st_mtime_ns, path.stat().st_size


def test_a_file_of_the_program_that_is_written_or_removed_is_a_change(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    for each in (first, second):
        each.write_text("x = 1\n")
    versions = Versions({str(first): _stamp(first), str(second): _stamp(second)})
    assert versions.change() == ""

    first.write_text("x = 22\n")
    assert versions.change() == f"{first} has changed"
    os.utime(first, ns=(_stamp(first)[0], _stamp(first)[0]))
    second.unlink()
    assert versions.change() == f"{first} has changed"


def test_a_folder_that_hides_a_library_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    versions = Versions({})
    (tmp_path / "other.py").write_text("")
    assert versions.change() == ""

    (tmp_path / "json.py").write_text("")

    assert versions.change() == f"{tmp_path} has a module json too"


def test_libraries_are_what_is_installed_and_not_of_the_program() -> None:
    found = loaded_libraries("orjson")

    assert "json" in found.libraries
    assert "streamsched.spark.warm.libraries" in found.libraries
    assert not [name for name in found.libraries if name.startswith("orjson")]
    assert str(Path(__file__).resolve()) in found.own


def test_a_variable_that_code_sets_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Surroundings()
    assert before.change({}) == ""

    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    assert before.change({}) == "its code sets OMP_NUM_THREADS in the environment"


@pytest.mark.parametrize(
    ("left", "why"),
    [
        ("import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()", "threads"),
        ("import socket; kept = socket.socket()", "connections"),
        ("import subprocess; kept = subprocess.Popen(['sleep', '9'], stdout=-3, stderr=-3)", "processes"),
        ("import os; os.environ.get('STREAMSCHED_RUN_ID')", "read STREAMSCHED_RUN_ID"),
        ("import sys; sys.exit(3)", "cannot be imported alone: SystemExit"),
        ("", ""),
    ],
)
def test_what_a_library_leaves_is_named(tmp_path: Path, left: str, why: str) -> None:
    package = tmp_path / "streamsched_kept.py"
    package.write_text(left)
    code = (
        "import sys, sysconfig\n"
        f"sysconfig.get_paths = lambda known=sysconfig.get_paths(): {{**known, 'platlib': {str(tmp_path)!r}}}\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from streamsched.spark.calls.zygote import LibraryError, import_libraries\n"
        "try:\n    import_libraries(['streamsched_kept'], server=-1)\n"
        "except LibraryError as exc:\n    print(exc)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (why in done.stdout, bool(done.stdout)) == (True, bool(why)), done
