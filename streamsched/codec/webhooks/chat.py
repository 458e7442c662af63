"""Messages for Slack (incoming webhooks) and Teams (the Workflows trigger "when a Teams webhook request is received").
Texts are elements that neither reads as markup.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from streamsched.domain.notices.notification import Digest, Paragraph, paragraphs, subject

#: Characters of a message: Slack refuses blocks of some 13,000 in all, Teams messages of 28 kB.
_SLACK_ROOM: Final = 9000
_TEAMS_ROOM: Final = 6000
_MOST_BLOCKS: Final = 45
_CARD: Final = "application/vnd.microsoft.card.adaptive"
_ESCAPED: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def slack(digest: Digest) -> bytes:
    """The body of a request to an incoming webhook of Slack. `text` is what notifications of devices show."""
    blocks = [_slack_block(each) for each in _fitting_paragraphs(digest, _SLACK_ROOM)]
    return orjson.dumps({"text": subject(digest).translate(_ESCAPED), "blocks": blocks})


def teams(digest: Digest) -> bytes:
    """The body of a request to a workflow of Teams: an Adaptive Card."""
    parts = list(_fitting_paragraphs(digest, _TEAMS_ROOM))
    body = [_teams_block(each) for each in parts if not each.link]
    links = [(each.lines[0], each.link) for each in parts if each.link]
    actions = [{"type": "Action.OpenUrl", "title": title[:60], "url": url} for title, url in links[:5]]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": subject(digest),
        "body": body,
        "actions": actions,
        "msteams": {"width": "Full"},
    }
    return orjson.dumps(
        {"type": "message", "attachments": [{"contentType": _CARD, "contentUrl": None, "content": card}]}
    )


def _fitting_paragraphs(digest: Digest, room: int) -> Iterator[Paragraph]:
    """The first paragraphs that have room; a log that has none is cut to its last lines."""
    for number, each in enumerate(paragraphs(digest)):
        size = sum(len(line) + 1 for line in each.lines) + len(each.link)
        if number == _MOST_BLOCKS or (size > room and not each.verbatim):
            yield Paragraph(("…",))
            return
        if size > room:
            each = Paragraph(("\n".join(each.lines)[-room:],), verbatim=True)  # noqa: PLW2901 - the same, shorter
            size = room
        room -= size
        yield each


def _slack_block(part: Paragraph) -> dict[str, Any]:
    text = "\n".join(part.lines) or " "
    if part.verbatim:
        inner = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]}
    elif part.link:
        inner = {"type": "rich_text_section", "elements": [{"type": "link", "url": part.link, "text": text}]}
    else:
        style = {"style": {"bold": True}} if part.strong else {}
        inner = {"type": "rich_text_section", "elements": [{"type": "text", "text": text, **style}]}
    return {"type": "rich_text", "elements": [inner]}


def _teams_block(part: Paragraph) -> dict[str, Any]:
    style: dict[str, Any] = {"weight": "Bolder"} if part.strong else {"fontType": "Monospace"} if part.verbatim else {}
    runs = [{"type": "TextRun", "text": "\n".join(part.lines) or " ", **style}]
    return {"type": "RichTextBlock", "inlines": runs, "spacing": "Small"}
