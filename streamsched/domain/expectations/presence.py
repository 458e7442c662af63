"""Whether what is expected is there. Everything that asks whether something came asks `presence`: what makes a period
complete can be refined here.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Final, NamedTuple

from streamsched.domain.expectations.expectation import Expectation, SubjectKind
from streamsched.domain.expectations.key_template import expected_key
from streamsched.domain.time.grain import shift_start

_MARK_BYTES: Final = 16


class Awaited(NamedTuple):
    """What is looked for.

    Attributes:
        key: of `domain.expectations.key_template.key_of`; "": any commit or completed run.
        after: without a key, only what came after this instant (UTC) counts.
    """

    kind: SubjectKind
    subject: str
    key: str
    after: datetime


class Presence(NamedTuple):
    """Attributes:
    at: when it was there first (UTC); None: it is not there.
    missing: what is missing, as text; "" when it is there.
    """

    at: datetime | None
    missing: str = ""


def expected_in_period(expectation: Expectation, start: datetime, after: datetime) -> Awaited:
    """What is expected in the period that begins at `start` (naive), or without a key after the instant `after`."""
    key = ""
    if expectation.key:
        key = expected_key(expectation.key, shift_start(start, expectation.every.grain, -expectation.lag))
    return Awaited(expectation.kind, str(expectation.subject), key, after)


def presence(wanted: Awaited, first: datetime | None) -> Presence:
    """Whether it is there, by the first evidence of it."""
    if first is not None:
        return Presence(first)
    thing = "commit" if wanted.kind is SubjectKind.DATASET else "completed run"
    if wanted.key:
        thing = f"{'partition' if wanted.kind is SubjectKind.DATASET else 'completed run of key'} {wanted.key}"
        return Presence(None, f"no {thing}")
    return Presence(None, f"no {thing} since {wanted.after:%Y-%m-%d %H:%M:%S}Z")


def evidence_mark(*parts: str) -> bytes:
    """Names a commit or a run by parts such as id and source: the same for a repeat of it."""
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=_MARK_BYTES).digest()
