"""Signatures of the Standard Webhooks specification 1.0: HMAC-SHA256 over `id.timestamp.body`.

>>> secret = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
>>> signature_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', secret)["webhook-signature"]
'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error
from hashlib import sha256
from typing import Final

from streamsched.domain.errors import InvalidError

#: Begins the text of a secret; base64 of its bytes follows.
PREFIX: Final = "whsec_"
#: Bytes of a generated secret; the specification asks for 24 to 64.
SECRET_BYTES: Final = 32
_SHORTEST: Final = 24
_LONGEST: Final = 64


def secret_text(random: bytes) -> str:
    """The text of a secret."""
    return PREFIX + b64encode(random).decode()


def signing_key(secret: str) -> bytes:
    """The bytes of a secret's text.

    Raises:
        InvalidError: it is not `whsec_` and base64 of 24 to 64 bytes. The message does not have the secret.
    """
    wrong = InvalidError("$.secret", f"must be {PREFIX} and base64 of {_SHORTEST} to {_LONGEST} bytes")
    text = secret.strip()
    if not text.startswith(PREFIX):
        raise wrong
    try:
        key = b64decode(text.removeprefix(PREFIX), validate=True)
    except (Error, ValueError):
        raise wrong from None
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise wrong
    return key


def signature_headers(message: str, timestamp: int, body: bytes, *keys: bytes) -> dict[str, str]:
    """The headers of a message, with a signature of each key. `message`: the same for each attempt, without `.`;
    `timestamp`: of this attempt, in seconds since 1970.
    """
    assert "." not in message
    content = b".".join((message.encode(), str(timestamp).encode(), body))
    signatures = " ".join(f"v1,{b64encode(hmac.new(key, content, sha256).digest()).decode()}" for key in keys)
    return {"webhook-id": message, "webhook-timestamp": str(timestamp), "webhook-signature": signatures}
