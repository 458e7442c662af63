"""The plug-ins of this environment: entry points of installed packages, read once a process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points


def installed_points(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name. The metadata of all packages is read again when `sys.path` has changed:
    that takes 20 to 50 ms.
    """
    return _points_on(tuple(sys.path), group)


@cache
def _points_on(_path: tuple[str, ...], group: str) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
