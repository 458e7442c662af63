"""What a definition needs besides the permission of its route."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streamsched.api.access.authorise import require
from streamsched.domain.access.execution import ProgramProfile, executions
from streamsched.domain.access.grant import Caller
from streamsched.domain.addresses import Network, refused_url
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.notices.mail_rules import refused_address
from streamsched.domain.notices.mail_server import MailSettings
from streamsched.domain.notices.recipient import MailRecipient
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.schedule import HttpJob, Program


def check_destination(url: str, networks: Sequence[Network], path: str) -> None:
    """Checks an address written in a definition. What a name resolves to is checked when it is connected to.

    Raises:
        InvalidDefinitionError: nothing may be sent there.
    """
    if (why := refused_url(url, networks)) is not None:
        raise InvalidDefinitionError(path, why)


def check_destinations(programs: Iterable[Program], networks: Sequence[Network]) -> None:
    """As `check_destination`, of the programs of an app.

    Raises:
        InvalidDefinitionError: nothing may be sent to the address of one of them.
    """
    for index, program in enumerate(programs):
        if isinstance(program.executable, HttpJob):
            check_destination(program.executable.url, networks, f"$.programs[{index}].url")


def check_recipients(app: AppDefinition, mail: MailSettings | None) -> None:
    """Checks that the installation sends mail, and may send it to the recipients of an app.

    Raises:
        InvalidDefinitionError: it does not, or may not.
    """
    for index, recipient in enumerate(app.on_failure):
        if not isinstance(recipient, MailRecipient):
            continue
        path = f"$.onFailure[{index}].mail"
        if mail is None:
            raise InvalidDefinitionError(path, "is set, but this installation sends no mail (STREAMSCHED_SMTP_URL)")
        for address in recipient.to:
            if (why := refused_address(app.ref.namespace, address, mail.rules)) is not None:
                raise InvalidDefinitionError(path, why)


def check_execution(
    caller: Caller, program: Program, path: str, profile: ProgramProfile | None = None, *, apart: bool = False
) -> None:
    """Checks that the caller may deploy what the program executes on launchers.

    Args:
        path: of the program.
        profile: the one that it names; None: none, or not known yet.
        apart: whether it runs as an OS user that is not the launcher's.

    Raises:
        ForbiddenError: it may not; the message has the path of the field.
    """
    for found in executions(program, profile, apart=apart):
        what = f"program '{program.ref.name}' ({path}{found.path.removeprefix('$')} {found.reason})"
        require(caller.may_execute(program.ref.namespace, what))
