"""Long modules and wide folders, each with the reason why it is so: a report, printed with `-s`.

A module of more than 400 lines, or a folder of more than 16 modules, is fine when it has a reason; what is not fine is
to cut one in two places where a reader would rather stay in one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from tests.architecture.test_modules import ROOT, SOURCES, path_in_tree

LONG: Final = 400
WIDE: Final = 16

#: Module → why it is long.
LONG_MODULES: Final[Mapping[str, str]] = {
    "streamsched/store/jobs/backfills.py": "a request is chosen from, stored and changed; records beside it",
    "streamsched/spark/runner.py": "one run from its claim to its stored end, which process it gets included",
    "streamsched/config.py": "every setting beside its meaning, by subject",
    "streamsched/telemetry/metric_table.py": "every metric beside its meaning, by subject",
    "tests/contracts/test_contract_catches.py": "a driver for each promise that it breaks",
    "streamsched/roles/launcher.py": "one process is put together in one place, from top to bottom",
}

#: Folder → why it is wide.
WIDE_FOLDERS: Final[Mapping[str, str]] = {
    "streamsched/api": "what all routes share, and dialects of one module",
    "streamsched/cli/commands": "one module for each command; folders are for several",
    "streamsched/wire": "one module for each resource of the API",
    "streamsched/process": "what a process of any role needs: loops, signals, health, HTTP, TCP",
}


def test_every_long_module_has_a_reason() -> None:
    modules = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    lines = {path_in_tree(path): len(path.read_text().splitlines()) for path in modules}

    _report({name: count for name, count in lines.items() if count > LONG}, LONG_MODULES, "lines")


def test_every_wide_folder_has_a_reason() -> None:
    folders = {path.parent for path in SOURCES}
    modules = {path_in_tree(each): sum(path.stem != "__init__" for path in each.glob("*.py")) for each in folders}

    _report({name: count for name, count in modules.items() if count > WIDE}, WIDE_FOLDERS, "modules")


def _report(large: Mapping[str, int], reasons: Mapping[str, str], unit: str) -> None:
    """Prints the large ones with their reasons, the largest first.

    Raises:
        AssertionError: one has no reason, or a reason is left of one that is not large any more.
    """
    for name, count in sorted(large.items(), key=lambda each: -each[1]):
        sys.stdout.write(f"{count} {unit}: {name}: {reasons.get(name, 'NO REASON')}\n")
    assert large.keys() == reasons.keys(), "say why it is large, or find the noun that wants to be a module of its own"
