"""Logging in at an OpenID provider: authorization code flow with PKCE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from streamsched.domain.access.claims import ClaimRules, Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSecrets:
    """What a login is begun with, each a random text.

    Attributes:
        state: comes back with the code.
        nonce: comes back in the ID token.
        verifier: sent with the code; the provider knows its digest.
    """

    state: str
    nonce: str
    verifier: str


class ProviderLogin(Protocol):
    """The provider's side of a login."""

    @property
    def name(self) -> str:
        """The provider's host, for people."""
        ...

    @property
    def rules(self) -> ClaimRules:
        """What ID tokens must say, and what roles give."""
        ...

    async def address(self, secrets: LoginSecrets, redirect_uri: str) -> str:
        """The URL at which a person logs in, and that leads to `redirect_uri` afterwards.

        Raises:
            UnavailableError: the provider cannot be reached.
        """
        ...

    async def identity(self, code: str, secrets: LoginSecrets, redirect_uri: str) -> Identity:
        """Who has logged in, by the code that came back. A provider accepts each code once.

        Raises:
            UnauthenticatedError: the provider refuses the code, or the ID token is not valid or gives no role.
            UnavailableError: the provider cannot be reached, or does not accept this installation's client.
        """
        ...
