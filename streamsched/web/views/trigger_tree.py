"""A trigger as a tree with its progress. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streamsched.domain.triggers.trigger import AllOf, AnyOf, AtLeast, Per, Trigger, children, needed_amount
from streamsched.web.views.names import shorten


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node: what it is, how far it is. `due_at`: when time alone changes it, and `then` how. `missing`: the
    periods of a roll-up that have not come, as text.
    """

    text: str
    have: int
    need: int
    holds: bool
    children: tuple[TreeNode, ...] = ()
    events: int = 0
    due_at: datetime | None = None
    then: str = ""
    missing: str = ""

    @property
    def count_text(self) -> str:
        return f"{self.have:,} of {self.need:,}"


def tree_of(trigger: Trigger, progress: Mapping[str, Any] | None) -> TreeNode:
    """The tree of a trigger. Without progress nothing has been counted."""
    return _tree_of_trigger(trigger) if not progress or "text" not in progress else _tree_of_progress(progress)


def all_leaves(node: TreeNode) -> list[TreeNode]:
    """The leaves, left to right."""
    return [leaf for child in node.children for leaf in all_leaves(child)] if node.children else [node]


def open_leaves(node: TreeNode) -> list[TreeNode]:
    """The leaves that do not hold, left to right."""
    if node.children:
        return [leaf for child in node.children for leaf in open_leaves(child)]
    return [] if node.holds else [node]


def _tree_of_progress(node: Mapping[str, Any]) -> TreeNode:
    below = tuple(_tree_of_progress(child) for child in node.get("children") or ())
    due_at = node.get("due_at")
    text = _headline(str(node.get("text", "")), len(below))
    return TreeNode(
        text,
        int(node.get("have", 0)),
        int(node.get("need", 0)),
        bool(node.get("holds")),
        below,
        len(node.get("events") or ()) + int(node.get("older", 0)),
        datetime.fromisoformat(due_at) if isinstance(due_at, str) else due_at,
        str(node.get("then", "")),
        str(node.get("missing_text", "")),
    )


def _tree_of_trigger(trigger: Trigger, per: Per | None = None) -> TreeNode:
    per = trigger if isinstance(trigger, Per) else per
    below = tuple(_tree_of_trigger(child, per) for child in children(trigger))
    match trigger:
        case AllOf():
            need = len(below)
        case AnyOf():
            need = 1
        case AtLeast():
            need = trigger.count
        case _:
            periods = None if below or per is None else per.wanted_parts("")
            need = 1 if below else periods or needed_amount(trigger)  # type: ignore[arg-type]
    if isinstance(trigger, Per):
        return TreeNode(shorten(str(trigger)), 0, need, holds=False, children=below)
    return TreeNode(_headline(str(trigger), len(below)), 0, need, holds=False, children=below)


def _headline(text: str, below: int) -> str:
    """The text of a node; the children of one with several show theirs themselves."""
    return shorten(text) if below < 2 else ""
