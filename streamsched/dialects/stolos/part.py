"""What is imported of Stolos."""

from __future__ import annotations

from typing import Final

from streamsched.parts import Part

PART: Final = Part(name="stolos", rank=5, imports=("importing:stolos",))
