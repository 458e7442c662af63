"""`streamsched import stolos`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.commands.deploy import origin_of
from streamsched.cli.confirmation import DryRunOption
from streamsched.cli.naming import field_path, full_app, short
from streamsched.cli.output import console, terminal_width
from streamsched.cli.server import UrlOption, ask
from streamsched.domain.errors import InvalidDefinitionError


def stolos(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A tasks.json.")],
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
    dry_run: DryRunOption = False,
    url: UrlOption = "",
) -> None:
    """Deploys the tasks of a Stolos `tasks.json` as a graph, and reports what means something else here."""
    from streamsched.codec.graph.stolos import stolos_from_json
    from streamsched.codec.graph.task import component_kinds
    from streamsched.codec.json.reading import Fields
    from streamsched.codec.schedules.schedule import app_to_json
    from streamsched.define.app import App
    from streamsched.define.loading import read_data
    from streamsched.define.retries import retry
    from streamsched.domain.names import AppRef

    kinds = component_kinds(Fields(pairs(component or ()), "--component"))
    ref = AppRef.parse(full_app(app))
    found = stolos_from_json(
        read_data(file),
        app=ref,
        default_template=template,
        delimiter=delimiter,
        kinds=kinds,
        validations=validations,
        validated=_validated(validations),
    )
    built = App(ref.app, namespace=ref.namespace)
    built.add_arrival_tasks(found.arriving)
    for each in found.tasks:
        name = each.task.name
        built.add_program(name, each.executable)
        built.add_task(each.task, name, retry=retry(max_retry, delay="1s", longest="1m"))
    body = app_to_json(built.definition(file.resolve().parent))
    out = console()
    if found.differences:
        out.print("What means something else here than in Stolos:", markup=False)
    for difference in found.differences:
        text = f"{field_path(difference.path)}: {difference.text}"
        width = min(terminal_width() or 100, 100)
        lines = wrap(text, width, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
        out.print("\n".join(lines), markup=False)
    if dry_run:
        out.print(f"{len(found.tasks)} tasks; nothing was deployed: leave out --dry-run", markup=False)
        return
    ask("PUT", f"/v1/apps/{ref.namespace}/{ref.app}", url=url, params={"origin": origin_of(str(file))}, body=body)
    out.print(f"[bold]{short(str(ref))}[/] is deployed: {len(found.tasks)} tasks")
    first = found.tasks[0].task.name if found.tasks else "TASK"
    out.print(f"next: `streamsched graph submit {short(str(ref))}.{first} -j JOB_ID`", markup=False)


def _validated(validations: str) -> Collection[str] | None:
    """The components that have a validator of this name; None where it is not installed here."""
    from streamsched.graph.functions import GraphFunctions

    if not validations:
        return ()
    try:
        return GraphFunctions().validators(validations, "--validations")
    except InvalidDefinitionError as exc:
        console(stderr=True).print(f"not known which parts of job ids are checked: {exc}", markup=False)
        return None
