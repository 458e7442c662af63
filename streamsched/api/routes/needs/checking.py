"""What a deployment checks of the things that its programs refer to."""

from __future__ import annotations

from collections.abc import Iterable

from streamsched.api.access.authorise import require
from streamsched.api.deps import ApiServices
from streamsched.domain.access.grant import Caller
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import AppRef
from streamsched.domain.programs.spark_deployment import check_profile
from streamsched.domain.programs.spark_profile import SparkProfile
from streamsched.domain.schedules.process_job import PythonJob, SparkJob
from streamsched.domain.schedules.schedule import Program


async def check_needs(
    services: ApiServices, caller: Caller, app: AppRef, programs: Iterable[Program], *, dry_run: bool
) -> None:
    """Checks that the profiles and bundles that programs name exist, and that the caller may use the masters of the
    profiles. Bundles are in use afterwards; in a dry run they need not exist yet.

    Raises:
        InvalidDefinitionError: one does not exist; the path is that of the field.
        ForbiddenError: the caller may not use a master.
    """
    profiles: dict[str, SparkProfile | None] = {}
    bundles: dict[str, bool] = {}
    for index, program in enumerate(programs):
        job = program.executable
        if isinstance(job, SparkJob) and (name := job.needs.profile):
            if name not in profiles:
                profiles[name] = await services.profiles.effective(app.namespace, name)
            profile = profiles[name]
            if profile is None:
                raise InvalidDefinitionError(
                    f"$.programs[{index}].profile",
                    f"'{name}' is no Spark profile of namespace {app.namespace}, nor of the installation",
                )
            check_profile(job.deploy_mode, profile, f"$.programs[{index}]", master=job.master is None)
            if job.master is None and profile.master is not None:
                require(caller.may_use_master(app.namespace, profile.master))
        digest = job.needs.bundle if isinstance(job, SparkJob) else job.bundle if isinstance(job, PythonJob) else ""
        if digest and digest not in bundles and not dry_run:
            bundles[digest] = await services.bundles.use(app.namespace, digest, now=services.clock.now())
        if not bundles.get(digest, True):
            raise InvalidDefinitionError(
                f"$.programs[{index}].bundle", f"{digest} is no bundle of namespace {app.namespace}: upload it first"
            )
