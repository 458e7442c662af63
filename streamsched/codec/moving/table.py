"""The table of an import: each part of the input with what became of it, as lines of at most 80 columns.

>>> rows = [ImportNote(NoteKind.REFUSED, "line 7", "no mail is sent", "load.email_on_failure")]
>>> print("\\n".join(table_of(rows)))
refused: 1
  line 7   load.email_on_failure: no mail is sent
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Final

from streamsched.codec.moving.draft import ImportNote, NoteKind

#: Columns of the table.
WIDTH: Final = 80
_PATH: Final = 8


def table_of(notes: Iterable[ImportNote], *, width: int = WIDTH, most: int | None = None) -> Iterator[str]:
    """The lines. `most`: rows of one kind; the number of further ones is named. Each kind of note begins with its name
    and number.
    """
    listed = list(notes)
    for kind in NoteKind:
        yield from rows_of(kind, [note for note in listed if note.kind is kind], width=width, most=most)


def rows_of(
    kind: NoteKind, notes: Sequence[ImportNote], *, width: int = WIDTH, most: int | None = None
) -> Iterator[str]:
    """The lines of the notes of one kind; none when there are none."""
    if not notes:
        return
    yield f"{kind.value}: {len(notes)}"
    for note in notes[:most]:
        text = f"{note.subject}: {note.text}" if note.subject else note.text
        first = f"  {note.path:<{_PATH}} "
        words = "".join(each if each.isprintable() else "\ufffd" for each in " ".join(text.split()))
        yield from wrap(
            words, width, initial_indent=first, subsequent_indent=" " * (_PATH + 5), break_on_hyphens=False
        ) or [first.rstrip()]
    if most is not None and len(notes) > most:
        yield f"  and {len(notes) - most} more: `-o json`, or the file"


def as_comments(lines: Iterable[str]) -> str:
    """The lines as comments of a YAML file."""
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)
