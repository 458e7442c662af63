"""What CDAP adds."""

from __future__ import annotations

from typing import Final

from streamsched.parts import Part

PART: Final = Part(
    name="cdap",
    rank=2,
    pages=("reference/cdap.md",),
    routes="routes:routes",
    events="codec.notification:NOTIFICATION",
    imports=("importing:cdap",),
)
