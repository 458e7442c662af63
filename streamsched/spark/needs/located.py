"""Paths of a program in the folder of its bundle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from streamsched.domain.schedules.process_job import PythonJob, SparkJob


def spark_in(job: SparkJob, folder: Path) -> SparkJob:
    """The job with its relative paths in the folder; absolute paths and URLs are not changed."""
    needs = job.needs

    def all_in(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(_path_in(each, folder) for each in paths)

    return replace(
        job,
        main=_path_in(job.main, folder),
        folder="" if job.module is None else _path_in(job.folder or ".", folder),
        uris=all_in(job.uris),
        needs=replace(
            needs,
            bundle="",
            py_files=all_in(needs.py_files),
            jars=all_in(needs.jars),
            files=all_in(needs.files),
            archives=all_in(needs.archives),
            requirements=_path_in(needs.requirements, folder),
        ),
    )


def python_in(job: PythonJob, folder: Path) -> PythonJob:
    """The job with its folder in that of the bundle."""
    return replace(job, folder=_path_in(job.folder or ".", folder), bundle="")


def _path_in(path: str, folder: Path) -> str:
    return str(folder / path) if path and "://" not in path else path
