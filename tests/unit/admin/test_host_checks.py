"""What is said about a machine's disks and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched.admin.checks import host_checks as checks
from streamsched.admin.checks.check_result import CheckLevel
from streamsched.admin.checks.host_checks import Disk, check_disk, host_checks

GB = 1 << 30


@pytest.mark.parametrize(
    ("disk", "level"),
    [
        (Disk(50 * GB, 100 * GB, 10**6, 10**7), CheckLevel.OK),
        (Disk(2 * GB, 2000 * GB, 10**6, 10**7), CheckLevel.OK),
        (Disk(GB // 2, 100 * GB, 10**6, 10**7), CheckLevel.WARNING),
        (Disk(50 << 20, 100 * GB, 10**6, 10**7), CheckLevel.FAILED),
        (Disk(0, 100 * GB, 10**6, 10**7), CheckLevel.FAILED),
        (Disk(50 * GB, 100 * GB, 0, 10**7), CheckLevel.FAILED),
        (Disk(50 * GB, 100 * GB, 500, 10**7), CheckLevel.WARNING),
        (Disk(50 * GB, 100 * GB, 0, 0), CheckLevel.OK),
        (Disk(10 << 20, 100 << 20, 0, 0), CheckLevel.OK),
    ],
    ids=lambda value: str(value).replace(" ", ""),
)
def test_a_disk_is_short_before_it_is_full(disk: Disk, level: CheckLevel) -> None:
    found = check_disk("/data", disk)

    assert (found.check, found.health, bool(found.advice)) == ("disk of /data", level, level is not CheckLevel.OK)


def test_each_file_system_is_checked_once_also_before_the_folder_is_there(tmp_path: Path) -> None:
    found = list(host_checks({"STREAMSCHED_DATA_DIR": str(tmp_path / "not" / "yet")}))

    disks = [each for each in found if each.check.startswith("disk of ")]
    assert disks[0].check == f"disk of {tmp_path}"
    assert len(disks) == len({each.check for each in disks})
    assert "MB are free" in disks[0].found


@pytest.mark.parametrize(("memory", "level"), [(4 * GB, CheckLevel.OK), (100 << 20, CheckLevel.WARNING)])
def test_little_memory_is_a_warning(memory: int, level: CheckLevel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "available_memory", lambda: memory)

    [found] = [each for each in host_checks({}) if each.check == "memory"]

    assert found.health is level
