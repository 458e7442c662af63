"""Explanations as JSON, for the read model and its users.

{"text", "holds", "have", "need", "missing", "events"?: [native event], "older"?: n, "children"?: […],
 "due_at"?: instant at which time alone changes it, "then"?: "holds" or "starts over",
 "missing_periods"?: [[first, last], …], at most 50 spans of what a key lacks, each with its value of a known set,
 "missing_text"?: the same as text}
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from streamsched.codec.events import native
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import answer, any_text, array, boolean, instant, integer, nullable, ref
from streamsched.domain.fold.explain import Explanation
from streamsched.domain.fold.state import TriggerState
from streamsched.domain.triggers.distinct import drop_rewritten

#: Number of newest events shown for one leaf; `older` is the number of further ones.
SHOWN: Final = 50
PROGRESS: Final = NamedSchema(
    "Progress",
    lambda: {
        **answer(
            {
                "text": any_text("7 partitions of default.flights"),
                "holds": boolean(example=False),
                "have": integer(3),
                "need": integer(7),
                "missing": integer(4),
            },
            {
                "events": array({"type": "object"}),
                "older": integer(0),
                "due_at": instant(),
                "then": nullable(any_text()),
                "children": array(ref("Progress")),
            },
        ),
        "additionalProperties": True,
        "description": "How far a trigger is, and what it waits for.",
    },
)


def losses(state: TriggerState) -> dict[str, int | str]:
    """The losses of a schedule that correlates in its generation: `lost_keys` (closed incomplete), `dropped_keys`
    (those of them closed because too many were open), `refused_events`, `keyless_events` (which have no key, or
    partitions without one) and `keyless_why` (of the last of them); zeros are omitted.
    """
    counts = {
        "lost_keys": state.lost,
        "dropped_keys": state.dropped,
        "refused_events": state.refused,
        "keyless_events": state.keyless,
        "keyless_why": state.keyless_why,
    }
    return {name: count for name, count in counts.items() if count}


def to_json(explanation: Explanation) -> dict[str, Any]:
    """The tree, with at most `SHOWN` events for each leaf, without events whose partitions were all rewritten."""
    node: dict[str, Any] = {
        "text": explanation.text,
        "holds": explanation.holds,
        "have": explanation.have,
        "need": explanation.need,
        "missing": explanation.missing,
    }
    if explanation.completeness is not None:
        node["missing_periods"] = [list(span) for span in islice(explanation.completeness.spans(), SHOWN)]
        node["missing_text"] = str(explanation.completeness)
    if explanation.events:
        last = explanation.events[-SHOWN:]
        some = drop_rewritten(last) if explanation.distinct else last
        node["events"] = [native.to_json(event) for event in some]
    older = max(0, len(explanation.events) - SHOWN) + explanation.events.older
    if older:
        node["older"] = older
    if explanation.due_at is not None:
        node["due_at"] = native.to_plain(explanation.due_at)
        node["then"] = explanation.then
    if explanation.children:
        node["children"] = [to_json(child) for child in explanation.children]
    return node
