"""`streamsched import cdap`: a CDAP server, a folder of its answers, or a list of its schedules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streamsched.cli.commands.moving.app_files import Writing
from streamsched.cli.commands.moving.report import (
    DryOption,
    ForceOption,
    ProgramsOption,
    StrictOption,
    ToOption,
    import_file,
    programs_in,
    report_apps,
)
from streamsched.cli.connection.waiting import notice
from streamsched.cli.output import Format, FormatOption, console
from streamsched.dialects.cdap.codec.dump.runs import MOST_RUNS, RUNS
from streamsched.domain.errors import InvalidError

if TYPE_CHECKING:
    from streamsched.dialects.cdap.codec.dump.dump import ImportedDump

#: Beside the files of apps: the folder with what is not in them, which `apply` does not read.
_BESIDE: Final = "cdap-state"


def cdap(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="The URL of CDAP, such as http://cdap:11015 (token: CDAP_ACCESS_TOKEN); a folder of its answers, "
            "named as their addresses below /v3; or a file with schedules as JSON, a list or one. `-`: standard input.",
        ),
    ],
    *,
    namespace: Annotated[str, typer.Option(help="The namespace here. Default: that of each schedule.")] = "",
    jars: Annotated[
        str,
        typer.Option(
            metavar="PLACE", help="Folder or URL with ARTIFACT-VERSION.jar of each app. Relative to the app files."
        ),
    ] = "jars",
    runs: Annotated[
        int,
        typer.Option(min=0, max=MOST_RUNS, help="The newest runs of each program that are taken over. 0: none."),
    ] = RUNS,
    save: Annotated[str, typer.Option(metavar="FOLDER", help="Of a URL: a folder for the answers as they are.")] = "",
    programs: ProgramsOption = None,
    to: ToOption = "",
    force: ForceOption = False,
    strict: StrictOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file for each application of CDAP, with programs, graphs of its workflows and schedules.

    Preferences of namespaces and past runs are written to the folder cdap-state beside them, for `import preferences`
    and `import runs`. What cannot be carried is a row of the table, with the reason. A program that is not understood,
    or not in a list of schedules, is a placeholder, which fails until it is replaced; so is a schedule that is not
    understood, which nothing starts.
    """
    given = {} if programs is None else programs_in(programs)
    writing = Writing(to, force, strict, dry_run)
    if save and "://" not in source:
        raise InvalidError("--save", "is for a URL; the answers of a folder are saved already")
    if "://" not in source and not Path(source).is_dir():
        from streamsched.dialects.cdap.codec.bulk import schedules_from_json

        read = lambda raw: schedules_from_json(raw, namespace=namespace, programs=given)  # noqa: E731
        import_file(Path(source), read, writing, output)
        return
    found = _dump(source, save, namespace=namespace, jars=jars, runs=runs, programs=given)
    state = _State(found, Path(to))
    if not dry_run and not force:
        state.check()
    wrote = report_apps(found.imported, source, writing, output, beside=state.write, summary=found.summary)
    for line in state.next_steps() if wrote and not output.is_structured else ():
        console().print(line, markup=False, highlight=False, soft_wrap=True)


def _dump(source: str, save: str, *, namespace: str, jars: str, runs: int, programs: Mapping[str, Any]) -> ImportedDump:
    from streamsched.dialects.cdap.codec.dump.dump import DumpRequest, import_dump
    from streamsched.dialects.cdap.import_answers import FolderAnswers, HttpAnswers, SavingAnswers

    answers = HttpAnswers(source) if "://" in source else FolderAnswers(Path(source))
    request = DumpRequest(namespace, jars, runs, programs)
    with notice(f"reading {source}"):
        return import_dump(SavingAnswers(answers, Path(save)) if save else answers, request)


class _State:
    """The files beside those of the apps. `to`: where these are written."""

    def __init__(self, found: ImportedDump, to: Path) -> None:
        self._found = found
        folder = (to.parent if to.suffix in (".yaml", ".yml") and not to.is_dir() else to) / _BESIDE
        self._preferences, self._runs = folder / "preferences.json", folder / "runs.jsonl"

    def check(self) -> None:
        """Raises:
        InvalidError: a file exists already.
        """
        for path in self._paths():
            if os.path.lexists(path):
                raise InvalidError("--to", f"{path} exists; `--force` replaces it")

    def write(self) -> Mapping[str, Any]:
        """Writes the files.

        Raises:
            InvalidError: one cannot be written.
        """
        import orjson

        from streamsched.codec.moving.imported_run import imported_run_to_json

        for path in self._paths():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as out:
                    if path == self._preferences:
                        out.write(orjson.dumps(self._found.preferences, option=orjson.OPT_INDENT_2) + b"\n")
                    else:
                        out.writelines(orjson.dumps(imported_run_to_json(run)) + b"\n" for run in self._found.runs)
            except OSError as exc:
                raise InvalidError("--to", f"{path} cannot be written: {exc.strerror}") from exc
        return {"state": [str(each) for each in self._paths()]}

    def next_steps(self) -> list[str]:
        """What is typed after `apply`."""
        commands = {self._preferences: "preferences", self._runs: "runs"}
        return [
            f"written: {path}; after `apply`: `streamsched import {commands[path]} {path}`" for path in self._paths()
        ]

    def _paths(self) -> list[Path]:
        found = self._found
        return [self._preferences] * bool(found.preferences) + [self._runs] * bool(found.runs)
