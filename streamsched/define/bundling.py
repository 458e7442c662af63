"""The bundle of an app: the folder of the file that defines it, and its programs with paths relative to that folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.process_job import PythonJob, SparkJob, paths_of
from streamsched.domain.schedules.schedule import Program


def move_into_bundle(app: AppDefinition, folder: Path, digest: str) -> AppDefinition:
    """The app whose Spark and Python programs are executed from the bundle with this digest. Files outside the folder
    keep their absolute paths.
    """
    return replace(app, programs=tuple(_move_program(each, folder.resolve(), digest) for each in app.programs))


def needs_bundle(app: AppDefinition) -> bool:
    """Whether it has programs that can be executed from a bundle."""
    return any(isinstance(each.executable, SparkJob | PythonJob) for each in app.programs)


def missing_files(app: AppDefinition) -> None:
    """Checks that the files that Spark programs name exist on this machine. URLs, and paths with `{name}`, which a run
    fills, are not checked.

    Raises:
        InvalidDefinitionError: one does not exist; the path is that of the field.
    """
    for index, program in enumerate(app.programs):
        if not isinstance(program.executable, SparkJob):
            continue
        for path, text in paths_of(program.executable).items():
            if "://" not in text and "{" not in text and not Path(text).exists():
                raise InvalidDefinitionError(
                    f"$.programs[{index}]{path.removeprefix('$')}",
                    f"{text} does not exist; if it exists on the machine that runs it, deploy with `--elsewhere`",
                )


def _move_program(program: Program, folder: Path, digest: str) -> Program:
    match program.executable:
        case SparkJob() as job:
            needs = job.needs

            def relative_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
                return tuple(_relative_path(each, folder) for each in paths)

            inside = replace(
                job,
                main=_relative_path(job.main, folder),
                folder=_relative_path(job.folder, folder),
                uris=relative_paths(job.uris),
                needs=replace(
                    needs,
                    bundle=digest,
                    py_files=relative_paths(needs.py_files),
                    jars=relative_paths(needs.jars),
                    files=relative_paths(needs.files),
                    archives=relative_paths(needs.archives),
                    requirements=_relative_path(needs.requirements, folder),
                ),
            )
            return replace(program, executable=inside)
        case PythonJob() as job:
            inside = replace(job, folder=_relative_path(job.folder, folder), bundle=digest)
            return replace(program, executable=inside)
        case _:
            return program


def _relative_path(path: str, folder: Path) -> str:
    """Relative to the folder if it is within, else as it is."""
    if not path or "://" in path or not Path(path).is_relative_to(folder):
        return path
    return Path(path).relative_to(folder).as_posix()
