"""What prepared drivers hold is read from the processes of their sessions."""

from __future__ import annotations

from pathlib import Path

from streamsched.admin.checks.prepared_drivers import PreparedMemory, prepared_memory
from streamsched.admin.doctor import CheckLevel, CheckResult, _prepared_drivers

DRIVER = "/usr/bin/python3\0-m\0streamsched.spark.calls.prepared_driver\x007\0"


def process(proc: Path, pid: int, parent: int, command: str, kilobytes: int | None) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} (odd) name)) S {parent} {pid} {pid} 0 -1")
    (folder / "cmdline").write_text(command)
    (folder / "status").write_text("Name:\tx\n" + (f"VmRSS:\t  {kilobytes} kB\n" if kilobytes is not None else ""))


def test_the_processes_of_a_driver_are_counted_apart(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    process(tmp_path, 10, 1, DRIVER, 50_000)
    process(tmp_path, 11, 10, "/usr/lib/jvm/bin/java\0-cp\0x\0", 400_000)
    process(tmp_path, 12, 10, DRIVER, 1000)  # of a run, forked
    process(tmp_path, 20, 1, "/usr/lib/jvm/bin/java\0-cp\0x\0", 7_000_000)
    process(tmp_path, 30, 1, DRIVER, None)  # has ended, and is not reaped
    (tmp_path / "40").mkdir()  # ends while it is read

    assert prepared_memory(tmp_path) == PreparedMemory(1, 51_000 * 1024, 400_000 * 1024)


def test_a_machine_without_proc_says_nothing(tmp_path: Path) -> None:
    assert prepared_memory(tmp_path) is None
    assert _prepared_drivers(None) == _prepared_drivers(PreparedMemory(0, 0, 0)) == []


def test_the_doctor_names_java_and_python_apart() -> None:
    (found,) = _prepared_drivers(PreparedMemory(2, 94_000_000, 762_000_000))
    assert isinstance(found, CheckResult)
    assert found.health is CheckLevel.OK
    assert "hold 762 MB (Java) and 94 MB" in found.found
