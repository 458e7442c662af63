"""Who is notified of the failures of an app: addresses, a webhook, or a program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import abridge, check_most
from streamsched.domain.names import check_queue_name

#: The most recipients of an app, addresses of one of them, and schedules that one is limited to.
MOST_RECIPIENTS: Final = 20
MOST_ADDRESSES: Final = 20
MOST_SCHEDULES: Final = 1000
_LONGEST_ADDRESS: Final = 254
#: What mail servers accept without quoting, so that no address has a line break, a comma or a bracket.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipient:
    """Attributes:
    schedules: names of schedules of the app; only their failures are sent; empty: all of the app.
    recovered: whether it is also sent that something is well again.
    """

    schedules: frozenset[str] = frozenset()
    recovered: bool = False

    def __post_init__(self) -> None:
        check_most(len(self.schedules), MOST_SCHEDULES, "$.schedules", "names")


@dataclass(frozen=True, slots=True, kw_only=True)
class MailRecipient(_Recipient):
    """Addresses, each once, to which one mail is sent."""

    to: tuple[str, ...]

    def __post_init__(self) -> None:
        _Recipient.__post_init__(self)
        if not self.to:
            raise InvalidDefinitionError("$.mail", "must have an address")
        object.__setattr__(self, "to", tuple(dict.fromkeys(self.to)))
        check_most(len(self.to), MOST_ADDRESSES, "$.mail", "addresses")
        for address in self.to:
            check_address(address, "$.mail")

    def __str__(self) -> str:
        return f"mail to {', '.join(self.to)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRecipient(_Recipient):
    """A webhook of the app's namespace, by name."""

    webhook: str

    def __post_init__(self) -> None:
        _Recipient.__post_init__(self)
        check_queue_name(self.webhook, "$.webhook")

    def __str__(self) -> str:
        return f"webhook {self.webhook}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRecipient(_Recipient):
    """A program of the app, which is started. Its own failures do not start it."""

    program: str

    def __post_init__(self) -> None:
        _Recipient.__post_init__(self)
        if self.recovered:
            raise InvalidDefinitionError("$.recovered", "is not for programs, which are started by failures only")

    def __str__(self) -> str:
        return f"program {self.program}"


Recipient = MailRecipient | WebhookRecipient | ProgramRecipient


def check_address(address: str, path: str) -> None:
    """Raises:
    InvalidDefinitionError: it is no plain address such as `team@example.org`.
    """
    if len(address) > _LONGEST_ADDRESS or not _ADDRESS.fullmatch(address) or ".." in address:
        raise InvalidDefinitionError(path, f"must be addresses such as team@example.org but has {abridge(address)}")
