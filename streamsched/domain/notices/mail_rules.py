"""To whom mail may be sent for the apps of a namespace: the rules of `STREAMSCHED_MAIL_TO`.

A rule is `namespace=address` or `namespace=@domain`; `*` is any namespace. Nothing is permitted without a rule.

>>> rules = parse_mail_rules("*=@example.org, shop=oncall@pager.example")
>>> refused_address("shop", "oncall@pager.example", rules), refused_address("shop", "team@Example.ORG", rules)
(None, None)
>>> refused_address("other", "oncall@pager.example", rules)
'no rule of STREAMSCHED_MAIL_TO permits namespace other to send mail to oncall@pager.example'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.notices.recipient import check_address
from streamsched.domain.programs.spark_profile import EVERYWHERE


@dataclass(frozen=True, slots=True)
class MailRule:
    """A rule. `address`: the only one, or `@` and a domain."""

    namespace: str
    address: str

    @classmethod
    def parse(cls, text: str) -> MailRule:
        """The rule in `namespace=address` or `namespace=@domain`; `*` is every namespace.

        Raises:
            InvalidDefinitionError: it is no rule.
        """
        namespace, sign, address = (part.strip() for part in text.partition("="))
        if not namespace or not sign:
            raise InvalidDefinitionError("$", f"must be rules such as *=@example.org but has '{text}'")
        check_address(f"x{address}" if address.startswith("@") else address, "$")
        return cls(namespace, address.lower())

    def permits(self, namespace: str, address: str) -> bool:
        """Whether apps of the namespace may have mail sent to the address."""
        if self.namespace not in (EVERYWHERE, namespace):
            return False
        wanted = address.lower()
        return wanted.endswith(self.address) if self.address.startswith("@") else wanted == self.address


def parse_mail_rules(text: str) -> Sequence[MailRule]:
    """The rules of a comma-separated text.

    Raises:
        InvalidDefinitionError: one is malformed.
    """
    return tuple(MailRule.parse(each) for each in text.split(",") if each.strip())


def refused_address(namespace: str, address: str, rules: Sequence[MailRule]) -> str | None:
    """Why no mail is sent to an address for a namespace; None: it may be."""
    if any(rule.permits(namespace, address) for rule in rules):
        return None
    return f"no rule of STREAMSCHED_MAIL_TO permits namespace {namespace} to send mail to {address}"
