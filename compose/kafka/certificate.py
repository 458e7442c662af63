"""A self-signed certificate for 127.0.0.1, to try TLS on one machine."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from compose.downloads import MissingError
from compose.kafka.properties import Security


def make_security(folder: Path, users: Mapping[str, str]) -> Security:
    """Creates key and certificate with openssl; clients trust `truststore` (`cafile=` of the log's URL).

    Raises:
        MissingError: openssl is not installed.
    """
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "keystore.pem"
    try:
        subprocess.run(
            (
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=127.0.0.1"),
                *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)),
            ),
            check=True,
            capture_output=True,
        )
    except FileNotFoundError as exc:
        raise MissingError("openssl is needed to make a certificate (Debian: apt-get install openssl)") from exc
    both.write_text(key.read_text() + certificate.read_text())
    both.chmod(0o600)
    return Security(both, certificate, dict(users))
