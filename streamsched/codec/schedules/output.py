"""The outputs of a program as JSON; of a dataset whose place is not known the name suffices.

{"outputs": ["daily", {"dataset": "hourly", "format": "delta", "location": "s3://lake/hourly"}],
 "done_when_committed": true}
"""

from __future__ import annotations

from typing import Any

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.domain.names import DEFAULT_NAMESPACE, DatasetRef
from streamsched.domain.programs.output import OutputFormat, ProgramOutput
from streamsched.domain.schedules.schedule import Program


def outputs_to_json(program: Program) -> dict[str, Any]:
    """The members of a program's JSON about its outputs; none when it declares none."""
    if not program.outputs:
        return {}
    outputs = [output_to_json(each) for each in program.outputs]
    return {"outputs": outputs, **({"done_when_committed": True} if program.done_when_committed else {})}


def outputs_from_json(fields: Fields, namespace: str) -> tuple[ProgramOutput, ...]:
    """Reads the outputs of a program in this namespace.

    Raises:
        DecodeError, InvalidDefinitionError: one is malformed; the path names it.
    """
    return tuple(output_from_json(each, path, namespace) for each, path in fields.optional_list("outputs"))


def output_to_json(output: ProgramOutput) -> dict[str, str]:
    """The canonical JSON of one output."""
    place = {"location": output.location} if output.location else {}
    return {"dataset": str(output.dataset), "format": output.format.value, **place}


def output_from_json(given: object, path: str, namespace: str = DEFAULT_NAMESPACE) -> ProgramOutput:
    """Reads one output.

    Raises:
        DecodeError, InvalidDefinitionError: it is malformed; the path names it.
    """
    fields = Fields({"dataset": given} if isinstance(given, str) else given, path)
    name, found = fields.text("dataset"), fields.optional_choice("format", OutputFormat)
    location = fields.optional_text("location") or ""
    fields.check_all_read()
    with prefix_errors(fields.path_of("dataset")):
        dataset = DatasetRef.parse(name, namespace)
    with prefix_errors(path):
        return ProgramOutput(dataset, found or OutputFormat.FILES, location)
