"""The format of the changelogs: one version number for everything workers write there (ADR 5).

| format | states    | known event ids (`codec.records.known_ids`)      |
|--------|-----------|--------------------------------------------------|
| 3      | version 3 | digests, many to a record (ADR 2)             |

1 and 2 are of the time before release 0.1.0. A release reads every format up to `NEWEST`. It writes `NEWEST`, or the
format before it while a worker is alive that cannot read the newer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamsched.domain.errors import ConfigurationError

NEWEST: Final = 3
WRITTEN: Final[tuple[int, ...]] = (3,)
#: Format → version of the encoding of states (`codec.records.state`).
STATES: Final[Mapping[int, int]] = {3: 3}


def format_for(reads: int) -> int:
    """The newest format that this release can write and a worker that reads formats up to `reads` can read.

    Raises:
        ConfigurationError: there is none, because the releases are too far apart.
    """
    fitting = [each for each in WRITTEN if each <= reads]
    if not fitting:
        raise ConfigurationError(
            f"a worker of an older release reads formats up to {reads}, and this one writes no older than "
            f"{min(WRITTEN)}: upgrade through the releases between them"
        )
    return max(fitting)
