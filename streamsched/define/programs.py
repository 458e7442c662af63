"""The part of an app's builder that adds programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, assert_never

import orjson

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.codec.schedules.output import outputs_from_json
from streamsched.define.needs import check_list, divide_secrets, driver_size, executor_size, located_path, located_spark
from streamsched.define.units import Duration, check_kind, duration, texts
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.json_value import member_path
from streamsched.domain.names import AppRef, EventName, ProgramRef
from streamsched.domain.programs.output import ProgramOutput
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.spark_deployment import deploy_mode as deploy_mode_of
from streamsched.domain.programs.spark_needs import SparkNeeds
from streamsched.domain.schedules.process_job import (
    BashJob,
    PythonJob,
    SparkJob,
    check_file_names,
    check_spark_deployment,
)
from streamsched.domain.schedules.schedule import EnqueueJob, Executable, HttpJob, Program, PublishJob
from streamsched.domain.schedules.shell_command import fill_for_shell


class ProgramBuilder:
    """Collects the programs of an app."""

    def __init__(self, ref: AppRef) -> None:
        self.ref = ref
        self._programs: dict[str, Program] = {}

    def spark(
        self,
        name: str,
        *,
        main: str | Path | None = None,
        pymodule: str | None = None,
        arguments: Iterable[str] = (),
        master: str | None = None,
        conf: Mapping[str, str | Secret] | None = None,
        env: Mapping[str, str | Secret] | None = None,
        env_from_os: Iterable[str] = (),
        uris: Iterable[str] = (),
        py_files: Iterable[str | Path] = (),
        packages: Iterable[str] = (),
        jars: Iterable[str | Path] = (),
        files: Iterable[str | Path] = (),
        archives: Iterable[str | Path] = (),
        requirements: str | Path | None = None,
        driver: Mapping[str, Any] | None = None,
        executors: Mapping[str, Any] | None = None,
        profile: str | None = None,
        main_class: str = "",
        deploy_mode: str = "client",
        defaults: Mapping[str, str] | None = None,
        outputs: Iterable[str | Mapping[str, str]] = (),
        done_when_committed: bool = False,
    ) -> ProgramRef:
        """Adds a Spark application: of Python, or a jar.

        Args:
            name: unique among the app's programs.
            main: the Python file, or a jar. A relative path is resolved against the folder of the file that defines the
                app. `spark-submit` fetches a URL when the run starts: `https://…`, or a filesystem that Spark knows.
            pymodule: instead of `main`, a module with `main(sc, ns, …)`, `main(textFile, ns, …)` or, for each line of
                the input, `main(line, ns, …)`. It is searched first in the folder of the file that defines the app.
            arguments: command line; `{name}` is replaced by the run's argument of that name. For a `pymodule`:
                `--read_fp`, `--write_fp`, `--sample`, `--mapjson`, `--minPartitions`, `--spark_conf`, `--spark_env`,
                and those of its `build_arg_parser`.
            master: Spark master URL; with `connect` the `sc://host:port` of a server. Default: the installation's.
            conf: settings of Spark, without `spark.submit.deployMode`; with `connect` those of a session, such as
                `spark.sql.shuffle.partitions`. A value may be a `secret(…)` with `client`.
            env: environment variables of the driver and the executors. A value may be a `secret(…)` with `client`.
            env_from_os: names of variables of the launcher that the executors get too; the driver has all that are
                passed to programs.
            uris: files for driver and executors. `.py`, `.zip`, `.egg` and `.whl` can be imported there.
            py_files: Python files, and `.zip`, `.egg` and `.whl` files, that can be imported there.
            packages: Maven coordinates `group:artifact:version`; Spark fetches them with what they depend on.
            jars: Java archives.
            files: files in the working folder of each executor.
            archives: archives that executors unpack; `env.tar.gz#environment` is their Python environment.
            requirements: a requirements file of pip. The launcher's machine installs it once into an environment of its
                own, which driver and local executors use.
            driver: its size: `cores`, `memory` (`"2g"`).
            executors: their number and size: `instances`, `cores`, `memory`.
            main_class: of a jar, the class whose `main` is called, such as `com.acme.Join`. Default: the jar's own.
            profile: name of a profile (`streamsched profile set`) with settings that those given here override.
            deploy_mode: `client`: `spark-submit` beside the launcher, with the driver in it. `cluster`: the driver runs
                in the cluster (standalone, YARN, Kubernetes). `connect`: `main` runs beside the launcher and its
                queries on a Spark Connect server, so that it starts within seconds.
            defaults: arguments of every run. Preferences and schedules can override them.
            outputs: the datasets it writes: names, or `{"dataset": "daily", "location": "s3://lake/daily", "format":
                "delta"}` (`files`, `delta`, `iceberg`). A run that is given up is fenced at those locations.
            done_when_committed: a job whose run fails or is lost is done, and is not repeated, when each of its outputs
                has a commit of the job. For programs that write each output once, as the last thing they do.
        """
        path = member_path("$.programs", name)
        if pymodule is None and not str(main or "").strip():
            raise InvalidDefinitionError(f"{path}.main", "is empty")
        with prefix_errors(path):
            settings, secret_conf = divide_secrets(conf, "$.conf")
            variables, secret_env = divide_secrets(env, "$.env")
            needs = SparkNeeds(
                profile=profile or "",
                py_files=check_list(py_files, "$.py_files"),
                packages=check_list(packages, "$.packages"),
                jars=check_list(jars, "$.jars"),
                files=check_list(files, "$.files"),
                archives=check_list(archives, "$.archives"),
                requirements=str(requirements or ""),
                driver=driver_size(driver),
                executors=executor_size(executors),
                secret_conf=secret_conf,
                secret_env=secret_env,
                main_class=main_class,
            )
            job = SparkJob(
                str(main or ""),
                check_list(arguments, "$.arguments"),
                master,
                settings,
                pymodule,
                "" if pymodule is None else ".",
                variables,
                check_list(env_from_os, "$.env_from_os"),
                check_list(uris, "$.uris"),
                needs,
                deploy_mode_of(deploy_mode, "$.deploy_mode"),
            )
        check_file_names(job, path)
        check_spark_deployment(job, path)
        written = self._outputs(outputs, path)
        return self._add(name, job, texts(defaults, f"{path}.defaults"), written, done_when_committed)

    def bash(
        self,
        name: str,
        command: str,
        *,
        fill: bool = False,
        success_codes: Iterable[int] = (),
        defaults: Mapping[str, str] | None = None,
        outputs: Iterable[str | Mapping[str, str]] = (),
        done_when_committed: bool = False,
    ) -> ProgramRef:
        """Adds a shell command. The run's arguments are in its environment as `STREAMSCHED_ARG_<NAME>`.

        Args:
            name: unique among the app's programs.
            command: executed by bash.
            fill: replace each `{name}` by the run's argument of that name, quoted for the shell; `{{` and `}}` are
                braces.
            success_codes: exit codes besides 0 with which a run completes, for `exit_codes` of a task.
            defaults: arguments of every run. Preferences and schedules can override them.
            outputs, done_when_committed: as of `spark`.
        """
        path = member_path("$.programs", name)
        if not check_kind(command, str, f"{path}.command", "a text such as 'make report'").strip():
            raise InvalidDefinitionError(f"{path}.command", "is empty")
        text = fill_for_shell(command, path=f"{path}.command") if fill else command
        written = self._outputs(outputs, path)
        with prefix_errors(path):
            job = BashJob(text, tuple(success_codes))
        return self._add(name, job, texts(defaults, f"{path}.defaults"), written, done_when_committed)

    def python(
        self,
        name: str,
        target: str,
        *,
        arguments: Iterable[str] = (),
        env: Mapping[str, str | Secret] | None = None,
        success_codes: Iterable[int] = (),
        defaults: Mapping[str, str] | None = None,
        outputs: Iterable[str | Mapping[str, str]] = (),
        done_when_committed: bool = False,
    ) -> ProgramRef:
        """Adds Python code that runs in a process of its own. Modules are searched first in the folder of the file that
        defines the app.

        Args:
            name: unique among the app's programs.
            target: `"module:function"`: called with the run's arguments whose names are its parameters, as texts. Or a
                module, or the name of an entry point of group `streamsched.task_kinds`, with `main(ns)` and optionally
                `build_arg_parser`.
            arguments: for a `main(ns)`, the command line that `build_arg_parser` parses; `{name}` is replaced by the
                run's argument of that name.
            env: environment variables of the process. A value may be a `secret(…)`.
            success_codes: exit codes besides 0 with which a run completes, for `exit_codes` of a task.
            defaults: arguments of every run. Preferences and schedules can override them.
            outputs, done_when_committed: as of `spark`.
        """
        path = member_path("$.programs", name)
        with prefix_errors(path):
            variables, secret_env = divide_secrets(env, "$.env")
            command_line, codes = check_list(arguments, "$.arguments"), tuple(success_codes)
            job = PythonJob(target, command_line, ".", variables, secret_env, success_codes=codes)
        written = self._outputs(outputs, path)
        return self._add(name, job, texts(defaults, f"{path}.defaults"), written, done_when_committed)

    def http(
        self,
        name: str,
        url: str,
        *,
        method: str = "POST",
        headers: Mapping[str, str | Secret] | None = None,
        body: str | Secret | None = None,
        timeout: Duration = "30s",
        defaults: Mapping[str, str] | None = None,
    ) -> ProgramRef:
        """Adds an HTTP request. The launcher sends it itself, without a process; a 2xx response is success.

        Args:
            name: unique among the app's programs.
            url: `{name}` is replaced by the run's argument of that name, percent-encoded. A `secret(…)` may be in its
                text, as in `f"https://host/{secret('env:PATH_OF_HOOK')}"`, and so in headers and body.
            method: GET, HEAD, POST, PUT, PATCH or DELETE.
            headers: headers of the request. Retries of a run have the same `Idempotency-Key`.
            body: `{name}` is replaced. Default: the run as JSON: `run`, `job`, `attempt`, `program`, `schedule`,
                `arguments`.
            timeout: longest time to wait for the response.
            defaults: arguments of every run. Preferences and schedules can override them.
        """
        path = member_path("$.programs", name)
        with prefix_errors(path):
            plain, secrets = divide_secrets(headers, "$.headers")
            request_headers = {**plain, **{each: str(secret) for each, secret in secrets.items()}}
            content = None if body is None else str(body)
            job = HttpJob(str(url), method.upper(), request_headers, content, duration(timeout, "$.timeout"))
        return self._add(name, job, texts(defaults, f"{path}.defaults"))

    def publish(
        self,
        name: str,
        event: str,
        *,
        attributes: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> ProgramRef:
        """Adds a program that emits one custom event for each completed run, without a process.

        Args:
            name: unique among the app's programs.
            event: name of the event, as in the trigger `event("…")`. Default namespace: the app's.
            attributes: `{name}` in their values is replaced by the run's argument of that name.
            defaults: arguments of every run. Preferences and schedules can override them.
        """
        path = member_path("$.programs", name)
        with prefix_errors(f"{path}.event"):
            event_name = EventName.parse(event, self.ref.namespace)
        job = PublishJob(event_name, texts(attributes, f"{path}.attributes"))
        return self._add(name, job, texts(defaults, f"{path}.defaults"))

    def enqueue(
        self,
        name: str,
        queue: str,
        *,
        lane: str = "",
        key: str = "",
        after: Duration | None = None,
        data: Any = None,
        defaults: Mapping[str, str] | None = None,
    ) -> ProgramRef:
        """Adds a program that makes one task of a queue for each completed run, without a process.

        Args:
            name: unique among the app's programs.
            queue: name of the queue, made by `streamsched queue set`.
            lane: tasks of one lane go one after another; `{name}` is replaced by the run's argument of that name, as
                in `"{key.customer}"`. Default: a lane of its own.
            key: names the task in its lane. Default: the job, so each job makes one task.
            after: the task is due so long after the run. Default: at once.
            data: what is delivered: a text, or anything that JSON can hold; `{name}` is replaced in its texts. Default:
                the run as JSON, as in the body of `http`.
            defaults: arguments of every run. Preferences and schedules can override them.
        """
        path = member_path("$.programs", name)
        with prefix_errors(path):
            due_after = timedelta(0) if after is None else duration(after, "$.after")
            job = EnqueueJob(queue, lane, key, due_after, _text(data))
        return self._add(name, job, texts(defaults, f"{path}.defaults"))

    def add_program(self, name: str, executable: Executable) -> ProgramRef:
        """Adds a program that was read elsewhere. Relative paths as of `spark` and `python`."""
        return self._add(name, executable, {})

    def _outputs(self, outputs: Iterable[str | Mapping[str, str]], path: str) -> tuple[ProgramOutput, ...]:
        return outputs_from_json(Fields({"outputs": list(outputs)}, path), self.ref.namespace)

    def _add(
        self,
        name: str,
        executable: Executable,
        defaults: dict[str, str],
        outputs: tuple[ProgramOutput, ...] = (),
        done_when_committed: bool = False,
    ) -> ProgramRef:
        path = member_path("$.programs", name)
        if name in self._programs:
            raise InvalidDefinitionError(path, "is defined twice")
        with prefix_errors(path):
            ref = ProgramRef(self.ref.namespace, self.ref.app, name)
        with prefix_errors(path):
            self._programs[name] = Program(ref, executable, defaults, outputs, done_when_committed)
        return ref

    def _find_program(self, program: ProgramRef | str) -> ProgramRef:
        for known in self._programs.values():
            if program in (known.ref, known.ref.name):
                return known.ref
        names = ", ".join(self._programs) or "none yet"
        raise InvalidDefinitionError("$", f"'{program}' is not a program of {self.ref} (known: {names})")


def resolve_paths(program: Program, base: Path) -> Program:
    """The program with the paths of its files and folders resolved against `base`; URLs are not changed."""
    match program.executable:
        case SparkJob() as job:
            return replace(program, executable=located_spark(job, base))
        case PythonJob() as job:
            return replace(program, executable=replace(job, folder=located_path(job.folder or ".", base)))
        case BashJob() | HttpJob() | PublishJob() | EnqueueJob() | ArrivalJob():
            return program
        case _:
            assert_never(program.executable)


def _text(data: Any) -> str | None:
    if data is None or isinstance(data, str):
        return data
    try:
        return orjson.dumps(data).decode()
    except TypeError as exc:
        raise InvalidDefinitionError("$.data", f"cannot be written as JSON: {exc}") from exc
