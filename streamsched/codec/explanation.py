"""Explanations as JSON, for the read model and everybody who shows it.

{"text", "holds", "have", "need", "missing", "events"?: [native event], "older"?: n, "children"?: […],
 "due_at"?: instant at which time alone changes it, "then"?: "holds" or "starts over"}
"""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec import native
from streamsched.domain.explain import Explanation

#: Events shown for one leaf, the newest; `older` says how many more there are.
SHOWN: Final = 50


def to_json(explanation: Explanation) -> dict[str, Any]:
    """The tree, with at most `SHOWN` events for each leaf."""
    node: dict[str, Any] = {
        "text": explanation.text,
        "holds": explanation.holds,
        "have": explanation.have,
        "need": explanation.need,
        "missing": explanation.missing,
    }
    if explanation.events:
        node["events"] = [native.to_json(event) for event in explanation.events[-SHOWN:]]
    older = max(0, len(explanation.events) - SHOWN) + explanation.events.older
    if older:
        node["older"] = older
    if explanation.due_at is not None:
        node["due_at"] = native.plain(explanation.due_at)
        node["then"] = explanation.then
    if explanation.children:
        node["children"] = [to_json(child) for child in explanation.children]
    return node
