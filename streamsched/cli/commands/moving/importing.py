"""`streamsched import`: definitions of other systems become files of apps, with a report."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streamsched.cli.commands.moving.stolos import stolos
from streamsched.cli.connection.waiting import notice
from streamsched.cli.group import new_group
from streamsched.cli.naming import field_path, full_app, short
from streamsched.cli.output import Format, FormatOption, console, counted, print_structured, terminal_width
from streamsched.cli.table import plain
from streamsched.domain.errors import DecodeError, InvalidError, NotFoundError
from streamsched.domain.names import AppRef

if TYPE_CHECKING:
    from streamsched.codec.moving.draft import Imported

#: Most notes of one kind that are printed for people.
_MOST_NOTES: Final = 200

ToOption = Annotated[
    Path | None,
    typer.Option(
        "--to",
        metavar="PATH",
        help="The YAML file to write; a folder gets one file per app. Default: NAME_OF_APP.yaml here.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Print the report; write nothing.")]


def commands() -> typer.Typer:
    """The commands of `streamsched import`."""
    app = new_group("Imports definitions of other systems, with a report of what carries over.")
    app.command()(crontab)
    app.command()(cdap)
    app.command()(oozie)
    app.command()(airflow)
    app.command()(stolos)
    return app


def crontab(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A crontab; `-` is standard input (`crontab -l`).")],
    *,
    app: Annotated[str, typer.Option("--app", help="The app to write, [namespace.]app.")] = "cron",
    system: Annotated[
        bool, typer.Option("--system", help="Entries name a user, as in /etc/crontab and /etc/cron.d.")
    ] = False,
    zone: Annotated[
        str, typer.Option(help="Zone of entries without CRON_TZ, such as Europe/Berlin. Default: UTC.")
    ] = "",
    to: ToOption = None,
    force: ForceOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file with a program and a schedule for each entry of a crontab, and reports the differences."""
    from streamsched.codec.crontab.crontab import crontab_from_text

    ref = AppRef.parse(full_app(app))
    _import(
        file,
        lambda raw: crontab_from_text(raw, ref, system=system, zone=zone),
        to=to,
        force=force,
        dry_run=dry_run,
        output=output,
    )


def cdap(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Schedules of CDAP as JSON: a list, as its REST API returns it, or one."),
    ],
    *,
    namespace: Annotated[str, typer.Option(help="The namespace here. Default: that of each schedule.")] = "",
    to: ToOption = None,
    force: ForceOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file for each application of CDAP with its schedules, and reports the differences.

    Programs become placeholders, which fail until they are replaced: the JSON of schedules does not have them.
    """
    from streamsched.codec.cdap.bulk import schedules_from_json

    _import(
        file,
        lambda raw: schedules_from_json(raw, namespace=namespace),
        to=to,
        force=force,
        dry_run=dry_run,
        output=output,
    )


def oozie(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A coordinator.xml; `-` is standard input.")],
    *,
    app: Annotated[str, typer.Option("--app", help="The app to write, [namespace.]app. Default: its name.")] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A property of the job, for `${NAME}`. Repeatable."),
    ] = None,
    to: ToOption = None,
    force: ForceOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file for a coordinator of Oozie, and reports the differences."""
    from streamsched.cli.arguments import pairs
    from streamsched.codec.oozie.coordinator import coordinator_from_xml

    ref, properties = AppRef.parse(full_app(app)) if app else None, pairs(set_ or ())
    _import(
        file,
        lambda raw: coordinator_from_xml(raw, ref, properties=properties),
        to=to,
        force=force,
        dry_run=dry_run,
        output=output,
    )


def airflow(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file of DAGs. It is read, not executed.")],
    *,
    namespace: Annotated[str, typer.Option(help="The namespace of the apps.")] = "default",
    to: ToOption = None,
    force: ForceOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file for each DAG of a file, as far as it can be read, and reports the rest."""
    from streamsched.codec.airflow.dag_file import dags_from_source

    _import(
        file, lambda raw: dags_from_source(raw, namespace=namespace), to=to, force=force, dry_run=dry_run, output=output
    )


def _import(
    file: Path, read: Callable[[bytes], Imported], *, to: Path | None, force: bool, dry_run: bool, output: Format
) -> None:
    """Reads the file, writes the apps unless `dry_run`, and prints the report.

    Raises:
        InvalidError: the input is not of its format, or a file exists and `force` is not given, or cannot be read or
            written.
        NotFoundError: there is no such file.
    """
    from streamsched.codec.schedules.schedule import app_from_json

    raw = _raw(file)
    try:
        with notice(f"reading {file}"):
            found = read(raw)
    except DecodeError as exc:
        raise DecodeError(f"{file} {field_path(exc.path)}".strip(), exc.reason) from exc
    written: list[str] = []
    with_content = [app for app in found.apps if app["programs"] or app["schedules"]]
    with notice(f"checking and writing {counted(len(with_content), 'app')}"):
        for app in with_content:
            app_from_json(app)  # what is written, `validate` accepts
        for app in with_content if not dry_run else ():
            written.append(str(_write(app, to, several=len(with_content) > 1, force=force)))
    if output.structured:
        notes = [{"kind": note.kind.value, "path": note.path, "text": note.text} for note in found.notes]
        print_structured({"apps": list(found.apps), "notes": notes, "files": written}, output)
        return
    _print_report(found)
    for app in with_content:
        name = short(f"{app['namespace']}.{app['application']}")
        counts = f"{counted(len(app['programs']), 'program')}, {counted(len(app['schedules']), 'schedule')}"
        console().print(f"{name}: {counts}", markup=False)
    for each in written:
        console().print(f"written: {each}; next: `streamsched plan {each}`", markup=False)
    if not with_content:
        console().print("nothing was written: nothing was found that can be carried over", markup=False)
    elif dry_run:
        console().print("nothing was written: leave out --dry-run", markup=False)


def _raw(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except FileNotFoundError as exc:
        raise NotFoundError("file", str(file)) from exc
    except OSError as exc:
        raise InvalidError("FILE", f"{file} cannot be read: {exc.strerror}") from exc


def _write(app: dict[str, Any], to: Path | None, *, several: bool, force: bool) -> Path:
    import yaml

    name = f"{app['application']}.yaml"
    if to is None:
        path = Path(name)
    elif several or to.is_dir():
        to.mkdir(parents=True, exist_ok=True)
        path = to / name
    else:
        path = to
    text = yaml.dump(app, Dumper=_readable_dumper(), allow_unicode=True, sort_keys=False, width=100)
    try:
        with path.open("w" if force else "x") as opened:
            opened.write(text)
    except FileExistsError as exc:
        raise InvalidError("--to", f"{path} exists; `--force` replaces it") from exc
    except OSError as exc:
        raise InvalidError("--to", f"{path} cannot be written: {exc.strerror}") from exc
    return path


def _readable_dumper() -> Any:
    """A safe dumper that writes texts of several lines as blocks."""
    import yaml

    class ReadableDumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            """Equal triggers are written out, not as references to each other."""
            return True

    def represent(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    ReadableDumper.add_representer(str, represent)
    return ReadableDumper


def _print_report(found: Imported) -> None:
    """Prints the notes by kind, in the order of the input."""
    from streamsched.codec.moving.draft import NoteKind

    out, width = console(), min(terminal_width() or 100, 100)
    headings = {
        NoteKind.CARRIES_OVER: ("carries over", "green"),
        NoteKind.CHANGES_MEANING: ("changes meaning", "yellow"),
        NoteKind.CANNOT: ("cannot be carried over", "red"),
    }
    for kind, (heading, style) in headings.items():
        notes = list(found.noted(kind))
        if not notes:
            continue
        out.print(f"{heading}: {len(notes)}", style=style)
        for note in notes[:_MOST_NOTES]:
            text = plain(f"{note.path}: {note.text}")
            lines = wrap(text, width, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
            out.print("\n".join(lines), markup=False)
        if len(notes) > _MOST_NOTES:
            out.print(f"  and {len(notes) - _MOST_NOTES} more: `-o json`", markup=False)
