"""A migration that a release has is never edited: databases have run it (`migrations/README.md`). The hashes of those
that landed are in `tests/golden/migrations.txt`, only added to, by UPDATE_DOCS=1.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tests.support.made_files import assert_written, only_added

ROOT = Path(__file__).parents[3]
LANDED = ROOT / "tests" / "golden" / "migrations.txt"


def test_landed_migrations_are_as_they_were() -> None:
    found = {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in sorted((ROOT / "migrations" / "versions").glob("*.sql"))
    }
    landed = dict(line.split() for line in LANDED.read_text().splitlines()) if LANDED.exists() else {}
    landed = only_added(landed, found)

    assert found == landed
    assert_written(
        LANDED, "".join(f"{name} {digest}\n" for name, digest in landed.items()), "this test with UPDATE_DOCS=1"
    )
