"""What one endpoint of Dapr's jobs API serves: one app, as a sidecar does."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamsched.dialects.dapr.codec.scope import DaprApp

#: The header of the API token, in HTTP and in gRPC's metadata.
TOKEN_HEADER: Final = "dapr-api-token"


@dataclass(frozen=True, slots=True)
class DaprEndpoint:
    """The app that is served, since clients do not name theirs.

    Attributes:
        api_token: what clients must send; empty: nothing.
        strict: see `codec.dapr`.
    """

    app: DaprApp
    api_token: str = ""
    strict: bool = False

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Whether the headers have the API token."""
        given = headers.get(TOKEN_HEADER, "")
        return not self.api_token or hmac.compare_digest(given.encode(), self.api_token.encode())
