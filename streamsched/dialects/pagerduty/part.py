"""What PagerDuty's scheduler adds."""

from __future__ import annotations

from typing import Final

from streamsched.parts import Part

PART: Final = Part(
    name="pagerduty",
    pages=("how-to/move-from-pagerduty.md",),
    routes="routes:routes",
    clients={"Scheduler": "client:Scheduler", "Task": "client:Task"},
    settings="settings:PagerdutySettings",
    intakes="loops:task_intakes",
)
