"""What all imports have: options, the files that they write, and the table of what became of the input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streamsched.cli.commands.moving.app_files import Writing, write_apps
from streamsched.cli.connection.waiting import notice
from streamsched.cli.naming import field_path, short_name
from streamsched.cli.output import Format, console, count_text, print_structured, terminal_width
from streamsched.cli.table import plain_text
from streamsched.codec.moving.draft import NoteKind
from streamsched.codec.moving.table import WIDTH
from streamsched.domain.errors import DecodeError, InvalidError, NotFoundError

if TYPE_CHECKING:
    from streamsched.codec.moving.draft import Imported

#: Most notes of one kind that are printed for people.
_MOST_NOTES: Final = 200
_STYLES: Final = {"carried": "green", "changed": "yellow", "refused": "red"}

ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="PATH",
        help="A file that ends in .yaml or .yml; anything else is a folder, which is made where it is missing "
        "and gets NAME_OF_APP.yaml of each app. Default: this folder.",
    ),
]
ProgramsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="YAML with `programs` in place of those of the import, by `name` or `app.name`."),
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Write nothing, and exit with 1, when something was refused.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Print the report; write nothing.")]


def import_file(file: Path, read: Callable[[bytes], Imported], writing: Writing, output: Format) -> None:
    """Reads the file, writes the apps unless it is a dry run, and prints the table.

    Raises:
        InvalidError: the input is not of its format, or a file exists and `--force` is not given, or cannot be read or
            written.
        NotFoundError: there is no such file.
    """
    raw = _raw(file)
    try:
        with notice(f"reading {file}"):
            found = read(raw)
    except DecodeError as exc:
        raise DecodeError(f"{file} {field_path(exc.path)}".strip(), exc.reason) from exc
    report_apps(found, file.name, writing, output)


def report_apps(
    found: Imported,
    source: str,
    writing: Writing,
    output: Format,
    *,
    beside: Callable[[], Mapping[str, Any]] = dict,
    summary: str = "",
) -> bool:
    """Writes the apps, unless it is a dry run, and prints the table.

    Args:
        source: the name of what was imported.
        beside: writes what else there is, after the apps; returns members of the structured output.
        summary: a further line for people.

    Returns:
        Whether it wrote something.

    Raises:
        InvalidError: a file exists and `--force` is not given, or cannot be written.
    """
    from streamsched.codec.moving.table import table_of
    from streamsched.codec.schedules.schedule import app_from_json

    with_content = [app for app in found.apps if app["programs"] or app["schedules"]]
    refused = sum(1 for _ in found.notes_of(NoteKind.REFUSED))
    strictly = writing.strict and refused > 0
    written: list[Path] = []
    members: Mapping[str, Any] = {}
    with notice(f"checking and writing {count_text(len(with_content), 'app')}"):
        for app in with_content:
            app_from_json(app)  # what is written, `validate` accepts
        if not writing.dry_run and not strictly:
            written = write_apps(with_content, found, writing, source=source)
            members = beside()
    if output.is_structured:
        notes = [
            {"kind": note.kind.value, "path": note.path, "text": note.text, "subject": note.subject, "app": note.app}
            for note in found.notes
        ]
        files = [str(each) for each in written]
        print_structured({"apps": list(found.apps), "notes": notes, "files": files, **members}, output)
    else:
        out, width = console(), min(terminal_width() or WIDTH, WIDTH)
        for line in table_of(found.notes, width=width, most=_MOST_NOTES):
            out.print(plain_text(line), style=_STYLES.get(line.partition(":")[0]), markup=False, soft_wrap=True)
        _print_written(with_content, written, writing, refused=refused)
        if summary:
            out.print(plain_text(summary), markup=False, highlight=False, soft_wrap=True)
    if strictly:
        raise typer.Exit(1)
    return not writing.dry_run


def _print_written(
    apps: Sequence[Mapping[str, Any]], written: Sequence[Path], writing: Writing, *, refused: int
) -> None:
    out = console()
    for app in apps:
        name = short_name(f"{app['namespace']}.{app['application']}")
        kinds = (("programs", "program"), ("schedules", "schedule"), ("tasks", "task"))
        counts = ", ".join(count_text(len(app[field]), noun) for field, noun in kinds if field in app)
        out.print(f"{name}: {counts}", markup=False, soft_wrap=True)
    for each in written:
        out.print(f"written: {each}; next: `streamsched plan {each}`", markup=False, soft_wrap=True)
    if not apps:
        out.print("nothing was written: nothing was found that can be carried over", markup=False)
    elif writing.strict and refused:
        out.print(f"nothing was written: {count_text(refused, 'part')} of the input refused (--strict)", markup=False)
    elif writing.dry_run:
        out.print("nothing was written: leave out --dry-run", markup=False)


def _raw(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except FileNotFoundError as exc:
        raise NotFoundError("file", str(file)) from exc
    except (OSError, ValueError) as exc:
        raise InvalidError("FILE", f"{file} cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc


def programs_in(file: Path) -> dict[str, Any]:
    """The programs in a file, by name.

    Raises:
        NotFoundError, DecodeError: it cannot be read, or has something else.
    """
    from streamsched.define.loading import read_data

    found = read_data(file)
    inner = found.get("programs") if isinstance(found, dict) else None
    if not isinstance(inner, dict):
        raise DecodeError(str(file), "must have `programs`, an object from name to definition")
    return inner
