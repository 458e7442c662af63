"""Hypothesis strategies for documents that a schema of `codec.schema` describes, and for almost such documents."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from streamsched.codec.shape.schemas import Definitions, Schema

#: Nested definitions beyond this depth are drawn from the first alternative, which is a leaf.
_DEEPEST = 4


def documents(schema: Schema, definitions: Definitions, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that the schema describes. Of a pattern whole matches are drawn; `examples` are likely."""
    if "$ref" in schema:
        return documents(definitions[schema["$ref"].rpartition("/")[2]], definitions, depth + 1)
    if "anyOf" in schema and "properties" not in schema:
        options = schema["anyOf"][:1] if depth > _DEEPEST else schema["anyOf"]
        return st.deferred(lambda: st.one_of(*[documents(each, definitions, depth) for each in options]))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema.get("type", "any")
    kind, *others = kinds if isinstance(kinds, list) else [kinds]
    found = _of_kind(kind, schema, definitions, depth)
    if others:
        found = st.none() | found
    return _likely(schema, found)


def _likely(schema: Schema, drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    examples = [each for each in schema.get("examples", ()) if each is not None]
    return st.sampled_from(examples) | drawn if examples else drawn


def _of_kind(kind: str, schema: Schema, definitions: Definitions, depth: int) -> st.SearchStrategy[Any]:
    match kind:
        case "string" if "pattern" in schema:
            most = schema.get("maxLength", 40)
            return st.from_regex(schema["pattern"], fullmatch=True).filter(lambda found: len(found) <= most)
        case "string" if schema.get("format") == "date-time":
            return st.just("2026-03-01T06:00:00+01:00")
        case "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 40)).filter(
                lambda found: "\0" not in found
            )
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False, width=32)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            item = st.deferred(lambda: documents(schema["items"], definitions, depth + 1))
            return st.lists(item, min_size=schema.get("minItems", 0), max_size=2)
        case "object" if "properties" in schema:
            return st.deferred(lambda: _records(schema, definitions, depth))
        case "object":
            value = schema.get("additionalProperties", {})
            return st.dictionaries(
                st.from_regex("[a-z]{1,3}", fullmatch=True),
                st.deferred(lambda: documents(value, definitions, depth + 1)),
                max_size=2,
            )
        case _:
            return st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3)


@st.composite
def _records(draw: st.DrawFn, schema: Schema, definitions: Definitions, depth: int) -> dict[str, Any]:
    optional = [each for each in schema["properties"] if each not in schema["required"]]
    chosen = draw(st.lists(st.sampled_from(optional), max_size=2, unique=True)) if optional else []
    alternatives = schema.get("anyOf")
    rule = draw(st.sampled_from(alternatives)) if alternatives else {}
    chosen += [each for each in rule.get("required", ()) if each not in chosen]
    absent = {each for each, own in rule.get("properties", {}).items() if own == {"type": "null"}}
    given = set(rule.get("required", ()))
    found = {}
    for each in (*schema["required"], *chosen):
        if each in absent:
            continue
        value = draw(documents(schema["properties"][each], definitions, depth))
        if value is None and each in given:
            value = schema["properties"][each]["examples"][0]
        found[each] = value
    return found


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """The document with one change: a member gone, of another kind, or one that is unknown."""
    if isinstance(document, dict) and document:
        name = draw(st.sampled_from(sorted(document)))
        how = draw(st.sampled_from(["deeper", "gone", "other", "unknown"]))
        if how == "gone":
            return {each: value for each, value in document.items() if each != name}
        if how == "unknown":
            return {**document, "unknwon": draw(_ATOMS)}
        if how == "other":
            return {**document, name: draw(_ATOMS)}
        return {**document, name: draw(altered(document[name]))}
    if isinstance(document, list) and document:
        index = draw(st.integers(0, len(document) - 1))
        return [draw(altered(each)) if at == index else each for at, each in enumerate(document)]
    return draw(_ATOMS)


_ATOMS = st.none() | st.booleans() | st.sampled_from([-1, 0, 1, 1.5, "", "a", [], {}, ["a"], {"a": "b"}])
