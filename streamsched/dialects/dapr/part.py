"""What Dapr's jobs add."""

from __future__ import annotations

from typing import Final

from streamsched.parts import Part, PartCommand

PART: Final = Part(
    name="dapr",
    pages=("how-to/use-dapr-jobs.md", "reference/dapr-jobs.md"),
    routes="native:routes",
    service="desk:make_desk",
    commands={
        "dapr": PartCommand(
            "commands.dapr:commands", "Serves Dapr's jobs API to an app, and schedules and shows jobs.", after="lane"
        )
    },
    settings="settings:DaprSettings",
    loops="loops:dapr_loops",
    connections="loops:connections",
)
