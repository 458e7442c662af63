"""`streamsched import`: definitions of other systems become files of apps, with a report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streamsched.cli.commands.moving.app_files import Writing, write_apps
from streamsched.cli.commands.moving.stolos import stolos
from streamsched.cli.connection.waiting import notice
from streamsched.cli.group import new_group
from streamsched.cli.naming import field_path, full_app, short
from streamsched.cli.output import Format, FormatOption, console, counted, print_structured, terminal_width
from streamsched.cli.table import plain
from streamsched.codec.moving.draft import NoteKind
from streamsched.codec.moving.table import WIDTH
from streamsched.domain.errors import DecodeError, InvalidError, NotFoundError
from streamsched.domain.limits import MOST_SLOTS
from streamsched.domain.names import AppRef

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
    to: ToOption = "",
    force: ForceOption = False,
    strict: StrictOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file with a program and a schedule for each entry of a crontab, and reports the differences."""
    from streamsched.codec.crontab.crontab import crontab_from_text

    ref = AppRef.parse(full_app(app))
    _import(
        file,
        lambda raw: crontab_from_text(raw, ref, system=system, zone=zone),
        Writing(to, force, strict, dry_run),
        output,
    )


def cdap(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Schedules of CDAP as JSON: a list, as its REST API returns it, or one."),
    ],
    *,
    namespace: Annotated[str, typer.Option(help="The namespace here. Default: that of each schedule.")] = "",
    programs: ProgramsOption = None,
    to: ToOption = "",
    force: ForceOption = False,
    strict: StrictOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file for each application of CDAP with its schedules, and reports the differences.

    Programs become placeholders, which fail until they are replaced: the JSON of schedules does not have them. A
    schedule that is not understood is a placeholder too, which nothing starts.
    """
    from streamsched.codec.cdap.bulk import schedules_from_json

    given = {} if programs is None else _programs(programs)
    _import(
        file,
        lambda raw: schedules_from_json(raw, namespace=namespace, programs=given),
        Writing(to, force, strict, dry_run),
        output,
    )


def oozie(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A coordinator.xml; `-` is standard input.")],
    *,
    app: Annotated[str, typer.Option("--app", help="The app to write, [namespace.]app. Default: its name.")] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A property of the job, for `${NAME}`. Repeatable."),
    ] = None,
    to: ToOption = "",
    force: ForceOption = False,
    strict: StrictOption = False,
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
        Writing(to, force, strict, dry_run),
        output,
    )


def airflow(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file of DAGs. It is read, not executed.")],
    *,
    namespace: Annotated[str, typer.Option(help="The namespace of the apps.")] = "default",
    version: Annotated[
        int | None, typer.Option("--airflow", min=2, max=3, help="2 or 3. Default: as the imports of the file suggest.")
    ] = None,
    pool: Annotated[
        list[str] | None, typer.Option("--pool", metavar="NAME=SLOTS", help="Slots of a pool. Repeatable.")
    ] = None,
    var: Annotated[
        list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="A variable of Airflow. Repeatable.")
    ] = None,
    programs: ProgramsOption = None,
    to: ToOption = "",
    force: ForceOption = False,
    strict: StrictOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file with a graph of tasks for each DAG of a file.

    What became of each keyword is printed, and is in the comments of the file: carried, changed or refused. A task that
    cannot be carried is a placeholder, which fails until it is replaced.
    """
    from streamsched.cli.arguments import pairs
    from streamsched.codec.airflow.dag_file import AirflowAnswers, dags_from_source

    given = {} if programs is None else _programs(programs)
    answers = AirflowAnswers(version or 0, _slots(pairs(pool or ())), pairs(var or ()), given)
    _import(
        file,
        lambda raw: dags_from_source(raw, namespace=namespace, answers=answers),
        Writing(to, force, strict, dry_run),
        output,
    )


def _programs(file: Path) -> dict[str, Any]:
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


def _slots(pools: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in pools.items():
        if not text.isascii() or not text.isdecimal() or not 0 < int(text[:12]) <= MOST_SLOTS:
            raise InvalidError("--pool", f"{name}={text} must have a number of slots, from 1 to {MOST_SLOTS}")
        found[name] = int(text)
    return found


def _import(file: Path, read: Callable[[bytes], Imported], writing: Writing, output: Format) -> None:
    """Reads the file, writes the apps unless it is a dry run, and prints the table.

    Raises:
        InvalidError: the input is not of its format, or a file exists and `--force` is not given, or cannot be read or
            written.
        NotFoundError: there is no such file.
    """
    from streamsched.codec.moving.table import table_of
    from streamsched.codec.schedules.schedule import app_from_json

    raw = _raw(file)
    try:
        with notice(f"reading {file}"):
            found = read(raw)
    except DecodeError as exc:
        raise DecodeError(f"{file} {field_path(exc.path)}".strip(), exc.reason) from exc
    with_content = [app for app in found.apps if app["programs"] or app["schedules"]]
    refused = sum(1 for _ in found.noted(NoteKind.REFUSED))
    strictly = writing.strict and refused > 0
    written: list[Path] = []
    with notice(f"checking and writing {counted(len(with_content), 'app')}"):
        for app in with_content:
            app_from_json(app)  # what is written, `validate` accepts
        if not writing.dry_run and not strictly:
            written = write_apps(with_content, found, writing, source=file.name)
    if output.structured:
        notes = [
            {"kind": note.kind.value, "path": note.path, "text": note.text, "subject": note.subject, "app": note.app}
            for note in found.notes
        ]
        files = [str(each) for each in written]
        print_structured({"apps": list(found.apps), "notes": notes, "files": files}, output)
    else:
        out, width = console(), min(terminal_width() or WIDTH, WIDTH)
        for line in table_of(found.notes, width=width, most=_MOST_NOTES):
            out.print(plain(line), style=_STYLES.get(line.partition(":")[0]), markup=False, soft_wrap=True)
        _print_written(with_content, written, writing, refused=refused)
    if strictly:
        raise typer.Exit(1)


def _print_written(
    apps: Sequence[Mapping[str, Any]], written: Sequence[Path], writing: Writing, *, refused: int
) -> None:
    out = console()
    for app in apps:
        name = short(f"{app['namespace']}.{app['application']}")
        kinds = (("programs", "program"), ("schedules", "schedule"), ("tasks", "task"))
        counts = ", ".join(counted(len(app[field]), noun) for field, noun in kinds if field in app)
        out.print(f"{name}: {counts}", markup=False, soft_wrap=True)
    for each in written:
        out.print(f"written: {each}; next: `streamsched plan {each}`", markup=False, soft_wrap=True)
    if not apps:
        out.print("nothing was written: nothing was found that can be carried over", markup=False)
    elif writing.strict and refused:
        out.print(f"nothing was written: {counted(refused, 'part')} of the input refused (--strict)", markup=False)
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
