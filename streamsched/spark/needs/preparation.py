"""What must be known before the command of a run is made: its profile, its bundle, the values of its secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from streamsched.domain.access.execution import profile_executions
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.programs.secret import Secret
from streamsched.domain.schedules.process_job import PythonJob, SparkJob
from streamsched.ports.runs import Assignment
from streamsched.process.os_user import OsUser
from streamsched.secrets.redaction import Redaction
from streamsched.secrets.resolver import Secrets
from streamsched.spark.needs.located import python_in, spark_in
from streamsched.spark.needs.options import with_profile
from streamsched.store.programs.profiles import ProfileStore

#: Returns the folder with the files of a bundle: of a namespace, by its digest, for the user that reads them.
BundleFolder = Callable[[str, str, OsUser | None], Awaitable[Path]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """An assignment as it is executed: with the settings of its profile, and with paths into the folder of its bundle.

    Attributes:
        secrets: the values of the secrets that it refers to.
        redaction: keeps these values out of texts.
    """

    assignment: Assignment
    secrets: Mapping[Secret, str] = field(default_factory=dict, repr=False)
    redaction: Redaction = field(default_factory=Redaction)


class Preparation:
    """Belongs to the process of one run.

    Args:
        profiles: None: there are none.
        bundle_folder: None: there are none.
    """

    def __init__(
        self,
        secrets: Secrets | None = None,
        profiles: ProfileStore | None = None,
        bundle_folder: BundleFolder | None = None,
    ) -> None:
        self._secrets = secrets or Secrets()
        self._profiles = profiles
        self._bundle_folder = bundle_folder

    async def prepare(self, assignment: Assignment, user: OsUser | None = None) -> Prepared:
        """`user`: as whom the program runs.

        Raises:
        ConfigurationError: its profile, its bundle or a secret does not exist, or cannot be read.
        UnavailableError: PostgreSQL is unavailable.
        """
        match assignment.program.executable:
            case SparkJob() as job:
                found = await self._with_files(assignment, await self._with_profile(assignment, job), user)
                references = found.needs.secrets()
            case PythonJob() as job:
                found = python_in(job, await self._folder(assignment, job.bundle, user)) if job.bundle else job
                references = {secret: f"$.env.{name}" for name, secret in job.secret_env.items()}
            case _:
                return Prepared(assignment)
        program = replace(assignment.program, executable=found)
        values = await self._secrets.read(program.ref.namespace, references)
        return Prepared(replace(assignment, program=program), values, Redaction(values.values()))

    async def _with_profile(self, assignment: Assignment, job: SparkJob) -> SparkJob:
        if not job.needs.profile:
            return job
        namespace, name = assignment.program.ref.namespace, job.needs.profile
        profile = None if self._profiles is None else await self._profiles.find(namespace, name)
        if profile is None:
            raise ConfigurationError(f"Spark profile '{name}' does not exist in namespace {namespace}, nor for all")
        if not profile.shell:  # it may have been set after the program was deployed
            for found in profile_executions(job, profile.profile):
                raise ConfigurationError(str(found))
        return with_profile(job, profile.profile)

    async def _with_files(self, assignment: Assignment, job: SparkJob, user: OsUser | None) -> SparkJob:
        return spark_in(job, await self._folder(assignment, job.needs.bundle, user)) if job.needs.bundle else job

    async def _folder(self, assignment: Assignment, digest: str, user: OsUser | None) -> Path:
        if self._bundle_folder is None:
            raise ConfigurationError("programs of a bundle are executed only by a launcher's runs")
        return await self._bundle_folder(assignment.program.ref.namespace, digest, user)
