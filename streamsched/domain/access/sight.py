"""What a caller sees of namespaces that are not his: nothing but numbers."""

from __future__ import annotations

from collections.abc import Callable

#: Whether names of a namespace may be shown to someone.
Sees = Callable[[str], bool]


def sees_nothing(namespace: str) -> bool:
    """Sees no namespace."""
    del namespace
    return False
