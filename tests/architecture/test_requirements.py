"""What is installed: exact versions, each file with its hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTS = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
#: Packages of Windows only, which nothing here was tried on.
ELSEWHERE = {"colorama", "pywin32"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    return {normal(name): version for name, version in PIN.findall(text)}


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_requirement_has_hashes_and_the_version_of_the_constraints(path: Path) -> None:
    text = path.read_text("utf-8")
    wanted = pins((ROOT / "constraints.txt").read_text("utf-8"))
    entries = [entry for entry in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if entry.strip()]

    assert entries
    assert [entry for entry in entries if not PIN.match(entry) or "--hash=sha256:" not in entry] == []
    found = pins(text)
    assert {
        name: version for name, version in found.items() if name not in ELSEWHERE and wanted.get(name) != version
    } == {}


def test_make_and_the_image_install_nothing_without_a_hash() -> None:
    for name in ("Makefile", "compose/Dockerfile"):
        text = (ROOT / name).read_text("utf-8").replace("\\\n", " ")
        installs = [line for line in text.splitlines() if re.search(r"pip install.* [-'.\w]|PIP_INSTALL\)", line)]
        unchecked = [
            line for line in installs if "--require-hashes" not in line and "--no-deps" not in line and ":=" not in line
        ]
        assert installs
        assert unchecked == []
