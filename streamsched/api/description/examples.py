"""Examples of documents, composed from those of their parts."""

from __future__ import annotations

from typing import Any

from streamsched.codec.shape.schemas import Definitions, Schema

_DEEPEST = 6


def example_of(schema: Schema, definitions: Definitions, depth: int = 0) -> Any:
    """An example of a value that the schema describes: of its own, or with all required members and one element of each
    list.
    """
    if schema.get("examples"):
        return schema["examples"][0]
    if "$ref" in schema:
        return example_of(definitions[schema["$ref"].rpartition("/")[2]], definitions, depth + 1)
    if "properties" in schema:
        return _record(schema, definitions, depth)
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], definitions, depth)
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) else kind:
        case "array":
            wanted = depth < _DEEPEST or schema.get("minItems", 0)
            return [example_of(schema["items"], definitions, depth + 1)] if wanted else []
        case "object":
            value = schema.get("additionalProperties")
            return {schema.get("x-key", "name"): example_of(value, definitions, depth + 1)} if value else {}
        case "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "string":
            return "a text"
        case _:
            return None


def _record(schema: Schema, definitions: Definitions, depth: int) -> dict[str, Any]:
    rule = (schema.get("anyOf") or [{}])[0]
    required = schema.get("required", [])
    names = [*required, *(name for name in rule.get("required", ()) if name not in required)]
    return {name: example_of(schema["properties"][name], definitions, depth + 1) for name in names}
