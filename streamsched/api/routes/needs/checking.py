"""What a deployment checks of the things that its programs refer to."""

from __future__ import annotations

from collections.abc import Iterable

from streamsched.api.access.authorise import require
from streamsched.api.access.definitions import check_execution
from streamsched.api.deps import ApiServices
from streamsched.domain.access.execution import ProgramProfile
from streamsched.domain.access.grant import Caller
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import AppRef
from streamsched.domain.programs.spark_deployment import check_profile
from streamsched.domain.schedules.process_job import PythonJob, SparkJob
from streamsched.domain.schedules.schedule import Program
from streamsched.store.programs.profiles import ProfileRecord


async def check_needs(
    services: ApiServices, caller: Caller, app: AppRef, programs: Iterable[Program], *, dry_run: bool
) -> None:
    """Checks that the caller may deploy what programs execute on launchers and use the masters of programs and
    profiles, and that the profiles and bundles exist. Bundles are in use afterwards; in a dry run they need not exist
    yet.

    Raises:
        InvalidDefinitionError: one does not exist; the path is that of the field.
        ForbiddenError: the caller may not deploy one of them, or not use a master.
    """
    profiles: dict[str, ProfileRecord | None] = {}
    bundles: dict[str, bool] = {}
    for index, program in enumerate(programs):
        job, path, apart = (
            program.executable,
            f"$.programs[{index}]",
            bool(services.settings.programs.run_as.user_of(program.ref)),
        )
        check_execution(caller, program, path, apart=apart)
        if isinstance(job, SparkJob) and job.master is not None:
            require(caller.may_use_master(app.namespace, job.master))
        if isinstance(job, SparkJob) and (name := job.needs.profile):
            if name not in profiles:
                profiles[name] = await services.programs.profiles.find(app.namespace, name)
            record = profiles[name]
            if record is None:
                raise InvalidDefinitionError(
                    f"{path}.profile",
                    f"'{name}' is no Spark profile of namespace {app.namespace}, nor of the installation",
                )
            profile = record.profile
            check_execution(caller, program, path, ProgramProfile(profile, record.shell), apart=apart)
            check_profile(job.deploy_mode, profile, path, master=job.master is None)
            if job.master is None and profile.master is not None:
                require(caller.may_use_master(app.namespace, profile.master))
        digest = job.needs.bundle if isinstance(job, SparkJob) else job.bundle if isinstance(job, PythonJob) else ""
        if digest and digest not in bundles and not dry_run:
            bundles[digest] = await services.programs.bundles.use(app.namespace, digest, now=services.clock.now())
        if not bundles.get(digest, True):
            raise InvalidDefinitionError(
                f"{path}.bundle", f"{digest} is no bundle of namespace {app.namespace}: upload it first"
            )
