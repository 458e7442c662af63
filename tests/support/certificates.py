"""A certificate of this machine for servers of tests, signed by itself."""

from __future__ import annotations

import subprocess
from pathlib import Path


def certificate(folder: Path, address: str) -> tuple[Path, Path]:
    """The private key and the certificate of an address, which lasts a day. Needs openssl."""
    key, chain = folder / "key.pem", folder / "certificate.pem"
    subject = ["-subj", f"/CN={address}", "-addext", f"subjectAltName=IP:{address}"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    subprocess.run([*made, "-keyout", str(key), "-out", str(chain)], check=True, capture_output=True)
    return key, chain
