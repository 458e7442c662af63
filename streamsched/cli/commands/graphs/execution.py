"""`streamsched graph run`: one node, by the scheduler or here."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.commands.graphs.plans import (
    JobId,
    TaskName,
    ask_graph,
    await_end,
    print_made,
    print_plan,
    task_path,
)
from streamsched.cli.naming import full_name
from streamsched.cli.output import console
from streamsched.cli.server import UrlOption, folder_here
from streamsched.domain.errors import ConfigurationError, InvalidError

if TYPE_CHECKING:
    from streamsched.domain.graph.task import TaskTemplate
    from streamsched.domain.schedules.schedule import Program


def run(
    task: TaskName,
    job_id: JobId,
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- OPTION…]",
            help="With --bypass: further options of the program's code, or words of its command.",
        ),
    ] = None,
    *,
    bypass: Annotated[
        bool, typer.Option("--bypass", help="Run its program here and now: no scheduler, no parents, no state.")
    ] = False,
    file: Annotated[
        str, typer.Option("--file", help="With --bypass: take the definition from this file, not from the server.")
    ] = "",
    arguments: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="NAME=VALUE", help="With --bypass: an argument of the run. Repeatable."),
    ] = None,
    bash: Annotated[
        str,
        typer.Option(
            "--bash", metavar="COMMAND", help="With --bypass: run this command, with {name} for arguments, instead."
        ),
    ] = "",
    spark_master: Annotated[
        str, typer.Option(help="With --bypass: Spark master of programs without one.")
    ] = "local[*]",
    url: UrlOption = "",
) -> None:
    """Runs one node and waits for its end; exit code 1 when it has not completed.

    Without --bypass it is submitted with all that it lacks; one that has ended does not run again. With --bypass its
    program runs in this terminal, with the arguments of the node; the exit code is the program's.
    """
    if bypass:
        given = _from_file(file, task) if file else _from_server(task, url)
        chosen = given._replace(program=_with_options(_with_command(given, bash), tuple(options or ())))
        raise typer.Exit(_execute(chosen, job_id, pairs(arguments or ()), spark_master))
    if file or options or arguments or bash:
        why = "is missing: --file, --arg, --bash and options are for a run without the scheduler"
        raise InvalidError("--bypass", why)
    app, name = task_path(task)
    path, body = f"/v1/graphs/{app}/submit", {"task": name, "jobIds": [job_id]}
    plan = ask_graph("POST", path, url=url, params={"dry_run": True}, body=body)
    print_plan(plan)
    print_made(ask_graph("POST", path, url=url, body=body)["jobs"])
    if plan["ended"]:
        again = f"`streamsched graph rerun {task} {shlex.quote(job_id)}`"
        console().print(f"it does not run again: {again} runs it again", markup=False)
    if await_end(task, job_id, url) != "COMPLETED":
        raise typer.Exit(1)


class _Definition(NamedTuple):
    """What a task's nodes run. `properties`: of its schedule. The program has the preferences of its namespace, unless
    it is from a file.
    """

    task: TaskTemplate
    properties: Mapping[str, str]
    program: Program


def _from_file(file: str, task: str) -> _Definition:
    from streamsched.define.loading import load_app

    app = load_app(file)
    name = task.rpartition(".")[2]
    for known in app.tasks:
        if known.name == name:
            schedule = next(each for each in app.schedules if each.ref.name == name)
            program = next(each for each in app.programs if each.ref == schedule.program)
            return _Definition(known, schedule.properties, program)
    names = ", ".join(each.name for each in app.tasks) or "none"
    raise InvalidError("TASK", f"'{name}' is no task of {file} (known: {names})")


def _from_server(task: str, url: str) -> _Definition:
    from streamsched.codec.graph.task import tasks_from_json
    from streamsched.codec.schedules.schedule import program_from_json
    from streamsched.domain.schedules.preferences import with_preferences

    app, name = task_path(task)
    listed = ask_graph("GET", f"/v1/graphs/{app}", url=url)["tasks"]
    fields = {each.pop("name"): {key: value for key, value in each.items() if key != "nodes"} for each in listed}
    if name not in fields:
        raise InvalidError("TASK", f"'{task}' is no task (known: {', '.join(fields)})")
    (known,) = tasks_from_json({name: fields[name]})
    full = full_name(task).replace("/", "-")
    schedule = ask_graph("GET", f"/v1/schedules/{full}", url=url)
    program = ask_graph("GET", f"/v1/programs/{full.removesuffix(name)}{schedule['program']}", url=url)
    program.pop("id")
    preferences = ask_graph("GET", f"/v1/namespaces/{app.partition('/')[0]}/preferences", url=url)["arguments"]
    return _Definition(known, schedule["properties"], with_preferences(program_from_json(program), preferences))


def _execute(given: _Definition, job_id: str, arguments: Mapping[str, str], spark_master: str) -> int:
    """Runs the program with the output of this terminal; returns its exit code."""
    from streamsched.domain.graph.release import node_arguments
    from streamsched.domain.schedules.arguments import KEY_PREFIX
    from streamsched.emit.destination import find_destination
    from streamsched.ports.runs import Assignment
    from streamsched.spark.command import RunEnvironment, command
    from streamsched.spark.files import RunFiles, write_run_file

    task, program = _with_validators(given.task), given.program
    job_id = task.template.canonical(job_id, "JOB_ID")
    parts = dict(zip(task.template.components, task.template.parts(job_id, "JOB_ID"), strict=True))
    keys = {f"{KEY_PREFIX}{name}": value for name, value in parts.items()}
    of_node = node_arguments(task, job_id)
    full = {**program.arguments, **keys, **given.properties, **of_node, **arguments}
    folder = folder_here().absolute() / "bypass"
    assignment = Assignment(f"{program.ref}.bypass-{os.getpid()}", 1, program, full)
    files = RunFiles(folder, assignment.run)
    files.make_folders()
    found = find_destination(os.environ)
    site = RunEnvironment(
        data_dir=folder, spark_master=spark_master, emit_url="" if found is None else found.url, environ=os.environ
    )
    try:
        made = command(assignment, site, write_run_file(files, assignment))
        sys.stdout.flush()
        return subprocess.run(made.argv, env=dict(made.env), check=False).returncode
    finally:
        for each in files.all:
            each.unlink(missing_ok=True)


def _with_validators(task: TaskTemplate) -> TaskTemplate:
    """The task with the validators of its job ids, if they are installed here."""
    from streamsched.domain.errors import InvalidDefinitionError
    from streamsched.graph.functions import GraphFunctions

    try:
        (found,) = GraphFunctions().with_validators([task])
    except InvalidDefinitionError as exc:
        console(stderr=True).print(f"the job id is not checked here: {exc}", markup=False)
        return task
    return found


def _with_command(given: _Definition, command: str) -> Program:
    """The program, with a command in place of its own unless that is empty."""
    from streamsched.domain.graph.release import JOB_ID, TASK
    from streamsched.domain.schedules.process_job import BashJob
    from streamsched.domain.schedules.shell_command import fill_for_shell

    program = given.program
    if not command:
        return program
    if not isinstance(program.executable, BashJob):
        raise InvalidError("--bash", f"is for shell commands, and program {program.ref} is none")
    known = {*given.task.template.components, *given.task.arguments, JOB_ID, TASK, *program.arguments}
    return replace(program, executable=BashJob(fill_for_shell(command, {*known, *given.properties}, "--bash")))


def _with_options(program: Program, options: tuple[str, ...]) -> Program:
    from streamsched.domain.schedules.process_job import NOTHING, BashJob, PythonJob, SparkJob
    from streamsched.domain.schedules.shell_command import fill_for_shell

    match program.executable:
        case SparkJob() | PythonJob() as job:
            return replace(program, executable=replace(job, arguments=(*job.arguments, *options)))
        case BashJob() if not options:
            return program
        case BashJob(command=command):
            words = fill_for_shell(shlex.join(options), None, "OPTION")
            return replace(program, executable=BashJob(words if command == NOTHING else f"{command} {words}"))
        case _:
            raise ConfigurationError(f"program {program.ref} is no process: a launcher sends it; leave out --bypass")
