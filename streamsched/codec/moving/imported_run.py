"""Past runs as JSON, one object for each:

{"program": "default.sales.load", "id": "cdap-1c2d", "state": "COMPLETED", "createdAt", "startedAt"?, "endedAt",
 "arguments"?: {…}, "reason"?: text}
"""

from __future__ import annotations

from typing import Any

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.domain.jobs.imported_run import ImportedRun
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.arguments import check_texts


def imported_run_to_json(run: ImportedRun) -> dict[str, Any]:
    """The canonical JSON."""
    return {
        "program": str(run.program),
        "id": run.id,
        "state": run.state.value,
        "createdAt": run.created_at.isoformat(),
        **({} if run.started_at is None else {"startedAt": run.started_at.isoformat()}),
        "endedAt": run.ended_at.isoformat(),
        **({"arguments": dict(run.arguments)} if run.arguments else {}),
        **({"reason": run.reason} if run.reason else {}),
    }


def imported_run_from_json(obj: object, path: str = "$") -> ImportedRun:
    """Raises:
    DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    fields = Fields(obj, path)
    with prefix_errors(fields.path_of("program")):
        program = ProgramRef.parse(fields.text("program"))
    name, state = fields.text("id"), fields.choice("state", RunState)
    created_at, ended_at = fields.instant("createdAt"), fields.instant("endedAt")
    started_at, arguments = fields.optional_instant("startedAt"), fields.texts("arguments")
    reason = fields.optional_text("reason") or ""
    fields.check_all_read()
    check_texts(arguments, fields.path_of("arguments"), "arguments")
    with prefix_errors(path):
        return ImportedRun(program, name, state, created_at, started_at, ended_at, arguments, reason)
