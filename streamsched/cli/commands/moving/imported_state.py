"""`streamsched import preferences` and `import runs`: what an import wrote beside the files of apps."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

import typer

from streamsched.cli.commands.admin import administer, settings_here
from streamsched.cli.confirmation import DryRunOption
from streamsched.cli.connection.waiting import notice
from streamsched.cli.output import Format, FormatOption, console, count_text, print_structured
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import plain_text
from streamsched.domain.errors import DecodeError, InvalidError, NotFoundError

if TYPE_CHECKING:
    from streamsched.admin.imported_runs import ImportedRunReport
    from streamsched.admin.installation import Installation

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file that an import wrote.")]


def preferences(
    file: FileArgument,
    *,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Sets the preferences of namespaces that an import wrote; other preferences stay."""
    from streamsched.codec.json.reading import Fields
    from streamsched.define.loading import read_data
    from streamsched.domain.names import check_namespace
    from streamsched.domain.schedules.preferences import check_preferences

    try:
        fields = Fields(read_data(file))
        found = {name: fields.texts(name) for name in fields.names()}
        for namespace, arguments in found.items():
            check_namespace(namespace)
            check_preferences(arguments, fields.path_of(namespace))
    except DecodeError as exc:
        raise DecodeError(f"{file} {exc.path}", exc.reason) from exc
    for namespace, arguments in found.items():
        path = f"/v1/namespaces/{quote(namespace, safe='')}/preferences"
        if not dry_run:
            ask("PATCH", path, url=url, body={"arguments": arguments, "reason": reason or f"imported from {file.name}"})
    if print_structured({"preferences": found, "set": not dry_run}, output):
        return
    for namespace, arguments in found.items():
        text = f"namespace {namespace}: {count_text(len(arguments), 'preference')}{'' if dry_run else ' set'}"
        console().print(text, markup=False, highlight=False)
    if dry_run:
        console().print("nothing was set: leave out --dry-run", markup=False)


def runs(file: FileArgument, *, output: FormatOption = Format.TABLE) -> None:
    """Adds past runs that an import wrote to the history. They start nothing and no message is about them.

    Accesses PostgreSQL directly, as `resync`: configured by STREAMSCHED_DATABASE_URL, or by the `streamsched dev` of
    this folder. Idempotent. Apply the apps before: runs of programs that are not deployed are left out, and so are
    runs that ended before the history that is kept (STREAMSCHED_JOBS_KEEP).
    """
    from streamsched.admin.imported_runs import add_imported_runs

    keep = settings_here().keep.jobs
    with ExitStack() as held:
        try:
            lines = held.enter_context(file.open("rb"))
        except FileNotFoundError as exc:
            raise NotFoundError("file", str(file)) from exc
        except OSError as exc:
            raise InvalidError("FILE", f"{file} cannot be read: {exc.strerror}") from exc

        async def run(at: Installation) -> ImportedRunReport:
            return await add_imported_runs(lines, store=at.imported_runs, keep=keep, now=at.clock.now())

        with notice(f"adding the runs of {file}"):
            report = administer(run)
    found = cast(
        "dict[str, Any]",
        {
            "added": report.added,
            "known": report.known,
            "old": report.old,
            "withoutProgram": report.without_program,
            "unknown": sorted(report.unknown),
            "refused": report.refused,
            "reasons": report.reasons,
        },
    )
    if print_structured(found, output):
        return
    out = console()
    out.print(f"{count_text(report.added, 'run')} added, {report.known} known already", markup=False, highlight=False)
    if report.old:
        text = f"{count_text(report.old, 'run')} left out: ended more than {keep.days} days ago (STREAMSCHED_JOBS_KEEP)"
        out.print(text, markup=False, highlight=False, soft_wrap=True)
    if report.without_program:
        names = ", ".join(sorted(report.unknown)[:5]) + (", …" if len(report.unknown) > 5 else "")
        text = f"{count_text(report.without_program, 'run')} left out, of programs that are not deployed: {names}"
        out.print(plain_text(text), markup=False, highlight=False, soft_wrap=True)
    if report.refused:
        out.print(f"refused: {report.refused}", style="red", markup=False)
        for line in report.reasons[:20]:
            out.print(f"  {plain_text(line)}", markup=False, highlight=False, soft_wrap=True)
