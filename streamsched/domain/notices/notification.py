"""What people are notified of: one text for mail and chats, made from values. Names, reasons and logs come from
outside, so each is one line without control characters, and cut to a length; a log keeps its lines.

    >>> failed = Notification(kind="run.failed", at=datetime(2026, 3, 1, 12, tzinfo=UTC), namespace="default",
    ...                       about="shop.daily", title="failed", reason="exit code 1")
    >>> subject(Digest((failed,)))
    'shop.daily failed: exit code 1'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

#: Notifications of a digest that are shown, and those of them with their logs.
MOST_SHOWN: Final = 20
MOST_LOGS: Final = 3
#: Most characters of a subject, of a line, and of a log.
LONGEST_SUBJECT: Final = 150
LONGEST_LINE: Final = 500
LONGEST_LOG: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One thing that happened.

    Attributes:
        kind: the change, such as `run.failed`.
        at: UTC.
        about: the schedule, program, dataset or expectation.
        title: what happened to it, as in "`about` failed".
        reason: why.
        facts: label → text, such as the run and the attempt.
        link: where people read about it; "": nowhere.
        log_tail: the last lines of the log.
        next_steps: commands that help.
    """

    kind: str
    at: datetime
    namespace: str
    about: str
    title: str
    reason: str
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    link: str = ""
    log_tail: str = ""
    next_steps: Sequence[str] = ()

    @property
    def headline(self) -> str:
        """One line."""
        reason = f": {one_line(self.reason)}" if self.reason else ""
        return one_line(f"{self.about} {self.title}{reason}", LONGEST_SUBJECT)


@dataclass(frozen=True, slots=True)
class Digest:
    """What one message says.

    Attributes:
        notifications: oldest first; only the first of them when there are more.
        count: how many there are.
        kinds: how many of each kind; empty where all are shown.
    """

    notifications: tuple[Notification, ...]
    count: int = 1
    kinds: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A part of a message.

    Attributes:
        lines: without line breaks.
        strong: whether it is a heading.
        verbatim: whether it is the end of a log.
        link: what the lines lead to; "": nothing.
    """

    lines: tuple[str, ...]
    strong: bool = False
    verbatim: bool = False
    link: str = ""


def subject(digest: Digest) -> str:
    """One line that says what happened."""
    first = digest.notifications[0]
    if digest.count == 1:
        return first.headline
    about = {each.about for each in digest.notifications}
    named = f" of {first.about}" if len(about) == 1 and digest.count <= len(digest.notifications) else ""
    return one_line(f"{digest.count:,} notifications{named}, first: {first.headline}", LONGEST_SUBJECT)


def paragraphs(digest: Digest) -> Iterator[Paragraph]:
    """The message, from the first to the last."""
    shown = digest.notifications[:MOST_SHOWN]
    if digest.count > 1:
        counts = ", ".join(f"{number:,} {kind}" for kind, number in sorted(digest.kinds.items()))
        yield Paragraph((f"{digest.count:,} notifications" + (f": {counts}" if counts else ""),), strong=True)
    for place, each in enumerate(shown):
        yield Paragraph((each.headline,), strong=True)
        facts = {"when": f"{each.at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z", "namespace": each.namespace, **each.facts}
        yield Paragraph((one_line(each.reason), *(f"{name}: {one_line(text)}" for name, text in facts.items() if text)))
        if each.log_tail and place < MOST_LOGS:
            yield Paragraph(tuple(_log_lines(each.log_tail)), verbatim=True)
        if each.link:
            yield Paragraph((f"open {one_line(each.about)}",), link=each.link)
        if each.next_steps and digest.count == 1:
            yield Paragraph(("what to do next:", *each.next_steps))
    if digest.count > len(shown):
        yield Paragraph((f"and {digest.count - len(shown):,} more",))


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """The text without control characters and line breaks, cut."""
    cut = text[: 4 * longest]
    plain = " ".join("".join(each if each.isprintable() else " " for each in cut).split())
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


def _log_lines(tail: str) -> Iterator[str]:
    for line in tail[-LONGEST_LOG:].splitlines():
        yield "".join(each if each.isprintable() else " " if each == "\t" else "\ufffd" for each in line)
