"""What OpenLineage adds."""

from __future__ import annotations

from typing import Final

from streamsched.parts import Part

PART: Final = Part(
    name="openlineage",
    pages=("how-to/receive-openlineage-events.md",),
    routes="routes:routes",
    service="store.lineage_ends:make_ends",
    settings="settings:LineageSettings",
)
