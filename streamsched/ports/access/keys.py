"""The public keys of an OpenID provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class KeyDocuments(Protocol):
    """Reads the keys that the provider publishes."""

    async def read(self) -> Mapping[str, Any]:
        """The provider's JSON Web Key Set, as it is now.

        Raises:
            UnavailableError: the provider cannot be reached, or answers something else.
        """
        ...
