"""What is imported of Oozie."""

from __future__ import annotations

from typing import Final

from streamsched.parts import Part

PART: Final = Part(name="oozie", rank=3, imports=("importing:oozie",))
