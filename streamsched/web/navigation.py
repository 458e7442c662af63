"""The places of the navigation, in order."""

from __future__ import annotations

from typing import Final, NamedTuple


class NavigationPlace(NamedTuple):
    """A link of the navigation; it is the current one on pages whose path begins with its own."""

    href: str
    label: str

    def current(self, path: str) -> bool:
        return path == self.href if self.href == "/ui/" else path.startswith(self.href)


PLACES: Final = (
    NavigationPlace("/ui/", "Home"),
    NavigationPlace("/ui/schedules", "Schedules"),
    NavigationPlace("/ui/jobs", "Jobs"),
    NavigationPlace("/ui/runs", "Runs"),
)
