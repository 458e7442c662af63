"""The places of the navigation, in order."""

from __future__ import annotations

from typing import Final, NamedTuple


class NavigationPlace(NamedTuple):
    """A link of the navigation; the current one on pages whose path begins with its own, or with one of `also`."""

    href: str
    label: str
    also: tuple[str, ...] = ()

    def is_current(self, path: str) -> bool:
        """Whether a page is of this place. Home is current on its own page only, because every path begins with its."""
        return path == self.href if self.href == "/ui/" else path.startswith((self.href, *self.also))


PLACES: Final = (
    NavigationPlace("/ui/", "Home"),
    NavigationPlace("/ui/schedules", "Schedules"),
    NavigationPlace("/ui/jobs", "Jobs"),
    NavigationPlace("/ui/runs", "Runs"),
    NavigationPlace("/ui/datasets", "Datasets", ("/ui/expectations",)),
    NavigationPlace("/ui/events", "Events", ("/ui/event", "/ui/dead-letters")),
    NavigationPlace("/ui/graph", "Graph"),
    NavigationPlace("/ui/limits", "Limits"),
    NavigationPlace("/ui/queues", "Queues"),
    NavigationPlace("/ui/webhooks", "Webhooks"),
    NavigationPlace("/ui/backfills", "Backfills"),
    NavigationPlace("/ui/admin", "Admin"),
)
