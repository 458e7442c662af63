"""What is imported of Airflow."""

from __future__ import annotations

from typing import Final

from streamsched.parts import Part

PART: Final = Part(name="airflow", rank=4, pages=("how-to/move-from-airflow.md",), imports=("importing:airflow",))
