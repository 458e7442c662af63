"""No job starts until the time in a file: its first line is that time (ISO 8601), its second the reason."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from streamsched.domain.constraints.plugin import Question
from streamsched.domain.decisions.admission import ConstraintVerdict, Satisfied, WaitUntil
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.launcher.plugins import Answer


def make(config: Mapping[str, Any]) -> Answer:
    """The constraint for the configuration `{"file": path}`.

    Raises:
        InvalidDefinitionError: `file` is missing.
    """
    file = config.get("file")
    if not isinstance(file, str) or not file:
        raise InvalidDefinitionError("$.file", f"must be the path of a file but is {file!r}")

    def answer(question: Question) -> ConstraintVerdict:
        path = Path(file)
        if not path.exists():
            return Satisfied("there is no quiet time")
        end, _, why = path.read_text().partition("\n")
        until = datetime.fromisoformat(end)
        if until <= question.now:
            return Satisfied(f"the quiet time ended at {end}")
        return WaitUntil(until, f"quiet until {end}: {why.strip()}")

    return answer
