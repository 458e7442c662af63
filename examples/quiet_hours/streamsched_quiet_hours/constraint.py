"""Nothing starts while a file says so: its first line is the end of the quiet (ISO 8601), its second the reason."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from streamsched.domain.admission import Satisfied, Verdict, WaitUntil
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.plugin import Question
from streamsched.ports.plugins import Answer


def make(config: Mapping[str, Any]) -> Answer:
    """Configured with `{"file": path}`.

    Raises:
        InvalidDefinitionError: it names no file.
    """
    file = config.get("file")
    if not isinstance(file, str) or not file:
        raise InvalidDefinitionError("$.file", f"must be the path of a file but is {file!r}")

    def answer(question: Question) -> Verdict:
        path = Path(file)
        if not path.exists():
            return Satisfied("no quiet is asked for")
        end, _, why = path.read_text().partition("\n")
        until = datetime.fromisoformat(end)
        if until <= question.now:
            return Satisfied(f"the quiet ended at {end}")
        return WaitUntil(until, f"quiet until {end}: {why.strip()}")

    return answer
