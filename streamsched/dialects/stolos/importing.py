"""`streamsched import stolos`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.commands.deploy import origin_of
from streamsched.cli.confirmation import DryRunOption
from streamsched.cli.naming import field_path, full_app, short_name
from streamsched.cli.output import Format, FormatOption, console, print_answer, terminal_width
from streamsched.cli.server import UrlOption, ask
from streamsched.domain.errors import InvalidDefinitionError, InvalidError, StreamschedError
from streamsched.domain.names import AppRef

if TYPE_CHECKING:
    from streamsched.dialects.stolos.codec.tasks import StolosDifference, StolosTask

#: Seconds between two looks at a source that is watched: the default, and the most.
_EVERY_S: Final = 5.0
_LONGEST_S: Final = 86_400


def stolos(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A tasks.json, a folder of such files, `-`, an http(s) URL, or a URL that an entry point of group "
            "streamsched.task_sources reads.",
        ),
    ],
    *,
    app: Annotated[str, typer.Option("--app", help="The app to deploy, [namespace.]app.")] = "stolos",
    template: Annotated[
        str, typer.Option(help="Job id of tasks without one, in place of STOLOS_JOB_ID_DEFAULT_TEMPLATE.")
    ] = "{date}_{client_id}_{collection_name}",
    delimiter: Annotated[str, typer.Option(help="STOLOS_JOB_ID_DELIMITER: one character.")] = "_",
    component: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=KIND", help="date, time, integer or text, for values of this kind. Repeatable."),
    ] = None,
    validations: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="In place of STOLOS_JOB_ID_VALIDATIONS: an entry point of group streamsched.job_id_validations.",
        ),
    ] = "",
    max_retry: Annotated[int, typer.Option(min=1, max=100, help="Number of runs of a job that fails.")] = 5,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until interrupted, and deploy whenever the source has changed.")
    ] = False,
    every: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="With --watch: time between two looks. Default: 5.")
    ] = None,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Deploys the tasks of a Stolos `tasks.json` as a graph, and reports what means something else here."""
    from streamsched.codec.graph.task import component_kinds
    from streamsched.codec.json.reading import Fields
    from streamsched.codec.schedules.schedule import app_to_json
    from streamsched.define.app import App
    from streamsched.define.retries import retry
    from streamsched.define.task_sources import WatchedTasks, find_source
    from streamsched.dialects.stolos.codec.paths import given_paths
    from streamsched.dialects.stolos.codec.tasks import stolos_from_json

    if every is not None and (not watch or not 0 < every <= _LONGEST_S):
        raise InvalidError("--every", f"is for --watch, a number of seconds up to {_LONGEST_S}")
    ref, kinds = AppRef.parse(full_app(app)), component_kinds(Fields(pairs(component or ()), "--component"))
    local = "://" not in source
    folder = Path(source).resolve() if local and Path(source).is_dir() else Path(source).resolve().parent
    checked = _components_with_validator(validations)

    def deploy(value: Any) -> None:
        found = stolos_from_json(
            value,
            app=ref,
            default_template=template,
            delimiter=delimiter,
            kinds=kinds,
            validations=validations,
            validated=checked,
        )
        with given_paths(value, found.names):
            built = App(ref.app, namespace=ref.namespace)
            built.add_arrival_tasks(found.arriving)
            for each in found.tasks:
                name = each.task.name
                built.add_program(name, each.executable)
                built.add_task(each.task, name, retry=retry(max_retry, delay="1s", longest="1m"))
            body = app_to_json(built.definition(folder if local else Path.cwd()))
            if not output.is_structured:
                _print_differences(found.differences)
            if not dry_run:
                path, params = f"/v1/apps/{ref.namespace}/{ref.app}", {"origin": origin_of(source)}
                ask("PUT", path, url=url, params=params, body=body)
        report = {
            "app": str(ref),
            "tasks": [each.task.name for each in found.tasks],
            "differences": [{"path": each.path, "text": each.text} for each in found.differences],
            "deployed": not dry_run,
        }
        print_answer(report, output, lambda _: _print_deployed(found.tasks, ref, dry_run=dry_run))

    read = find_source(source)
    watched = WatchedTasks(lambda: read(source), lambda value: _named_source(source, deploy, value))
    watched.step()
    while watch:
        time.sleep(every or _EVERY_S)
        try:
            watched.step()
        except StreamschedError as exc:
            console(stderr=True).print(f"what was deployed stays: {exc}", markup=False, soft_wrap=True)


def _named_source(source: str, deploy: Callable[[Any], None], value: Any) -> None:
    """Deploys; the path of an error begins with the source.

    Raises:
        InvalidError: as `deploy`.
    """
    try:
        deploy(value)
    except InvalidError as exc:
        raise type(exc)(f"{source} {field_path(exc.path)}".strip(), exc.reason) from exc


def _print_differences(differences: Sequence[StolosDifference]) -> None:
    out = console()
    if differences:
        out.print("What means something else here than in Stolos:", markup=False)
    for difference in differences:
        text = f"{field_path(difference.path)}: {difference.text}"
        width = min(terminal_width() or 100, 100)
        lines = wrap(text, width, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
        out.print("\n".join(lines), markup=False)


def _print_deployed(tasks: Sequence[StolosTask], ref: AppRef, *, dry_run: bool) -> None:
    out, name = console(), short_name(str(ref))
    if dry_run:
        out.print(f"{len(tasks)} tasks; nothing was deployed: leave out --dry-run", markup=False)
        return
    out.print(f"[bold]{name}[/] is deployed: {len(tasks)} tasks")
    first = tasks[0].task.name if tasks else "TASK"
    out.print(f"next: `streamsched graph submit {name}.{first} -j JOB_ID`", markup=False)


def _components_with_validator(validations: str) -> Collection[str] | None:
    """The components that have a validator of this name; None where it is not installed here."""
    from streamsched.graph.functions import GraphFunctions

    if not validations:
        return ()
    try:
        return GraphFunctions().validators(validations, "--validations")
    except InvalidDefinitionError as exc:
        console(stderr=True).print(f"not known which parts of job ids are checked: {exc}", markup=False)
        return None
