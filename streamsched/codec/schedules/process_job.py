"""Executables that run as a process, as JSON:

{"type": "spark", "main": "join.py" | "pymodule": "tasks.flow", "arguments"?: […], "master"?: text, "conf"?: {…},
 "folder"?: path, "env"?: {…}, "env_from_os"?: [name, …], "uris"?: [path or URL, …],
 "deploy_mode"?: "client" | "cluster" | "connect", and the fields of `codec.schedules.spark_needs`}
{"type": "bash", "command": text, "fill"?: true, "success_codes"?: [exit code, …]}
{"type": "python", "target": "module:function", "arguments"?: […], "folder"?: path, "env"?: {…}, "bundle"?: SHA-256,
 "success_codes"?: [exit code, …]}

Values of `conf` and `env` are texts, or secrets by reference: {"secret": "env:NAME"}.

With `fill` the placeholders of a command are replaced when it is read; its canonical JSON has variables instead.
"""

from __future__ import annotations

from typing import Any, assert_never

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.codec.json.secret import plain_and_secret, with_secrets
from streamsched.codec.schedules.spark_needs import needs_from_json, needs_to_json
from streamsched.domain.jobs.failure import LARGEST_EXIT_CODE
from streamsched.domain.limits import check_most
from streamsched.domain.programs.spark_deployment import DeployMode, deploy_mode
from streamsched.domain.schedules.process_job import BashJob, PythonJob, SparkJob
from streamsched.domain.schedules.shell_command import fill_for_shell


def process_job_to_json(job: SparkJob | BashJob | PythonJob) -> dict[str, Any]:
    """The canonical JSON; what is empty is left out, except fields that older versions always wrote."""
    match job:
        case SparkJob():
            code = {"main": job.main} if job.module is None else {"pymodule": job.module}
            return {
                "type": "spark",
                **code,
                "arguments": list(job.arguments),
                **({} if job.master is None else {"master": job.master}),
                "conf": with_secrets(job.conf, job.needs.secret_conf),
                **_without_none(
                    folder=job.folder,
                    env=with_secrets(job.env, job.needs.secret_env),
                    env_from_os=list(job.env_from_os),
                    uris=list(job.uris),
                    **needs_to_json(job.needs),
                ),
                **({} if job.deploy_mode is DeployMode.CLIENT else {"deploy_mode": job.deploy_mode.value}),
            }
        case BashJob(command=command, success_codes=codes):
            return {"type": "bash", "command": command, **_without_none(success_codes=list(codes))}
        case PythonJob():
            env = with_secrets(job.env, job.secret_env)
            own = _without_none(arguments=list(job.arguments), folder=job.folder, env=env, bundle=job.bundle)
            own |= _without_none(success_codes=list(job.success_codes))
            return {"type": "python", "target": job.target, **own}
        case _:
            assert_never(job)


def spark_from_json(fields: Fields) -> SparkJob:
    """Raises:
    DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    module = fields.optional_text("pymodule")
    main = fields.text("main") if module is None else fields.optional_text("main") or ""
    arguments, master = fields.text_list("arguments"), fields.optional_text("master")
    conf, env = plain_and_secret(fields, "conf"), plain_and_secret(fields, "env")
    folder = fields.optional_text("folder") or ""
    inherited, uris = fields.text_list("env_from_os"), fields.text_list("uris")
    needs = needs_from_json(fields, conf.secret, env.secret)
    mode = deploy_mode(fields.optional_text("deploy_mode") or DeployMode.CLIENT, fields.path_of("deploy_mode"))
    with prefix_errors(fields.path):
        return SparkJob(main, arguments, master, conf.plain, module, folder, env.plain, inherited, uris, needs, mode)


def bash_from_json(fields: Fields) -> BashJob:
    """Raises:
    DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    command = fields.text("command")
    if fields.optional_boolean("fill"):
        command = fill_for_shell(command, path=fields.path_of("command"))
    codes = _success_codes(fields)
    with prefix_errors(fields.path):
        return BashJob(command, codes)


def python_from_json(fields: Fields) -> PythonJob:
    """Raises:
    DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    target, arguments = fields.text("target"), fields.text_list("arguments")
    folder, env = fields.optional_text("folder") or "", plain_and_secret(fields, "env")
    bundle, codes = fields.optional_text("bundle") or "", _success_codes(fields)
    with prefix_errors(fields.path):
        return PythonJob(target, arguments, folder, env.plain, env.secret, bundle, codes)


def _success_codes(fields: Fields) -> tuple[int, ...]:
    name = "success_codes"
    codes = fields.unchecked_list(name)
    check_most(len(codes), LARGEST_EXIT_CODE, fields.path_of(name), "exit codes")
    return codes


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
