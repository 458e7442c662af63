"""What is imported of a crontab."""

from __future__ import annotations

from typing import Final

from streamsched.parts import Part

PART: Final = Part(name="crontab", rank=1, imports=("importing:crontab",))
