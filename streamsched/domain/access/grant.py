"""Who may do what: grants of a caller, and the verdict on a request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from streamsched.domain.access.permission import PERMISSIONS, AccessRole, Permission
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.run import job_of
from streamsched.domain.limits import LONGEST_NAME
from streamsched.domain.names import check_namespace

#: The namespace of a grant that holds in all namespaces and for the installation.
EVERYWHERE: Final = "*"
#: Before the id of a run in the name of a caller that is one.
OF_RUN: Final = "run:"
#: Most grants of a caller; each request compares all of them.
MOST_GRANTS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A role in a namespace.

    Attributes:
        namespace: its name; `*`: all namespaces and the installation.
        names: patterns (`*`, `?`) of the names, without the namespace, that the permission to emit is for: datasets,
            with their commits and bookmarks, streams, events, programs (`app.program`), jobs of Dapr (`app.job`),
            queues, other bookmarks; empty: all. Other permissions are not restricted by it.
        shell: whether `deploy` includes what executes on the machines of launchers (`domain.access.execution`). An
            admin may always.
        masters: patterns of the Spark masters that programs may name. The installation's default is always allowed.

    Raises:
        InvalidError: the namespace is no name, or a pattern is empty or too long.
    """

    role: AccessRole
    namespace: str = EVERYWHERE
    names: tuple[str, ...] = ()
    shell: bool = False
    masters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.namespace != EVERYWHERE:
            check_namespace(self.namespace)
        for field, patterns in (("names", self.names), ("masters", self.masters)):
            for index, pattern in enumerate(patterns):
                if not 0 < len(pattern) <= LONGEST_NAME or not pattern.isprintable():
                    raise InvalidError(f"$.{field}[{index}]", f"must have 1 to {LONGEST_NAME} printable characters")

    def gives(self, permission: Permission, namespace: str | None) -> bool:
        """Whether the role has the permission in the namespace; None: for the installation."""
        return permission in PERMISSIONS[self.role] and self.namespace in {EVERYWHERE, namespace}


@dataclass(frozen=True, slots=True)
class Allowed:
    """The request may be carried out."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The request is refused; `reason` names what is missing, for the caller."""

    reason: str


AccessVerdict = Allowed | Denied

ALLOWED: Final = Allowed()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request. `name` identifies the caller in the audit, such as `token:ci` or `run:<id>`."""

    name: str
    grants: tuple[Grant, ...]

    def may(self, permission: Permission, namespace: str | None) -> AccessVerdict:
        """Whether a grant gives the permission in the namespace; None: for the installation, so in all namespaces."""
        if any(grant.gives(permission, namespace) for grant in self.grants):
            return ALLOWED
        where = "for the whole installation" if namespace is None else f"in namespace '{namespace}'"
        return Denied(f"{self.name} has no permission to {permission} {where}{self._other_namespaces_hint(permission)}")

    def sees(self, namespace: str) -> bool:
        """Whether names of the namespace may be shown to the caller."""
        return isinstance(self.may(Permission.VIEW, namespace), Allowed)

    def may_emit(self, namespace: str | None, name: str) -> AccessVerdict:
        """Whether a grant lets the caller emit under this name of the namespace; None: a name of the installation."""
        verdict = self.may(Permission.EMIT, namespace)
        if isinstance(verdict, Denied):
            return verdict
        patterns: list[str] = []
        for grant in self._grants_of(Permission.EMIT, namespace):
            if not grant.names or any(fnmatchcase(name, pattern) for pattern in grant.names):
                return ALLOWED
            patterns += grant.names
        where = "for the whole installation" if namespace is None else f"in namespace '{namespace}'"
        return Denied(f"{self.name} may announce only {_join_names(patterns)} {where}, not '{name}'")

    def may_execute(self, namespace: str, what: str = "what executes on launchers") -> AccessVerdict:
        """Whether a grant lets the caller deploy what executes on the machines of launchers. `what`: for the reason."""
        if any(
            grant.shell or grant.role is AccessRole.ADMIN for grant in self._grants_of(Permission.DEPLOY, namespace)
        ):
            return ALLOWED
        return Denied(f"{self.name} may not deploy {what} in namespace '{namespace}': its grant has no `shell`")

    def may_use_master(self, namespace: str, master: str) -> AccessVerdict:
        """Whether a grant lets the caller deploy Spark programs that name this master."""
        patterns: list[str] = []
        for grant in self._grants_of(Permission.DEPLOY, namespace):
            if grant.role is AccessRole.ADMIN or any(fnmatchcase(master, pattern) for pattern in grant.masters):
                return ALLOWED
            patterns += grant.masters
        allowed = _join_names(patterns) if patterns else "only the default master"
        return Denied(f"{self.name} may not use Spark master '{master}' in namespace '{namespace}': {allowed}")

    def may_fence(self, job: str) -> AccessVerdict:
        """Whether the caller may commit to datasets as an attempt of the job, which keeps earlier attempts from it: a
        run as its own job, others with the permission to operate where the job is.
        """
        run = self.name.removeprefix(OF_RUN)
        if run != self.name and job in (run, job_of(run)):  # a manual run is its own job
            return ALLOWED
        verdict = self.may(Permission.OPERATE, job.partition(".")[0])
        if isinstance(verdict, Denied):
            return Denied(f"job '{job}' is not the job of {self.name}: {verdict.reason}")
        return ALLOWED

    def namespaces(self, permission: Permission) -> frozenset[str]:
        """The namespaces in which the caller has the permission; `*` is among them when it has it everywhere."""
        return frozenset(grant.namespace for grant in self.grants if permission in PERMISSIONS[grant.role])

    def _grants_of(self, permission: Permission, namespace: str | None) -> Iterator[Grant]:
        return (grant for grant in self.grants if grant.gives(permission, namespace))

    def _other_namespaces_hint(self, permission: Permission) -> str:
        others = sorted(self.namespaces(permission))
        return f"; it has it in {_join_names(others)}" if others else ""


def _join_names(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
