"""Bundles: the folder of an app as an archive, named by the SHA-256 of its content."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import abridge

#: Most files and folders of a bundle.
MOST_FILES: Final = 10_000
#: Most characters of a path in a bundle, and of one of its parts: what file systems accept.
LONGEST_PATH: Final = 1000
LONGEST_PART: Final = 200
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class BundleFile:
    """A file of a bundle: its relative path with `/`, its size in bytes, whether it is executable."""

    path: str
    size: int
    executable: bool = False


def check_digest(digest: str, path: str = "$.bundle") -> None:
    """Raises:
    InvalidDefinitionError: it is no SHA-256 in hexadecimal digits.
    """
    if not _DIGEST.fullmatch(digest):
        raise InvalidDefinitionError(path, f"must be a SHA-256 of 64 lower-case digits but is {abridge(digest)}")


def check_files(files: Iterable[BundleFile], *, most_bytes: int, path: str = "$") -> None:
    """Checks what a bundle would write on a disk. `path`: of the bundle.

    Raises:
        InvalidDefinitionError: a path leaves the folder of the bundle, is there twice or is a folder as well; or there
            are too many files or bytes. The path of the error is that of the file, or of the bundle.
    """
    seen: set[str] = set()
    folders: set[str] = set()
    total = 0
    for number, each in enumerate(files, start=1):
        check_path(each.path, each.path if each.path.isprintable() else ascii(each.path))
        total += each.size
        if number > MOST_FILES:
            raise InvalidDefinitionError(path, f"has more than {MOST_FILES:,} files, the most that a bundle may have")
        if total > most_bytes:
            raise InvalidDefinitionError(
                path, f"has more than {most_bytes:,} bytes of files, the most that a bundle may have"
            )
        parts = each.path.split("/")
        folders.update("/".join(parts[:end]) for end in range(1, len(parts)))
        if each.path in seen:
            raise InvalidDefinitionError(each.path, "is in the bundle twice")
        seen.add(each.path)
    if both := seen & folders:
        raise InvalidDefinitionError(min(both), "is both a file and a folder of the bundle")


def check_path(text: str, path: str) -> None:
    """Checks a path relative to the folder of a bundle.

    Raises:
        InvalidDefinitionError: it is absolute, has `..`, `.`, an empty part, a backslash or a control character, or is
            too long.
    """
    parts = text.split("/")
    if not all(parts) or {".", ".."} & set(parts) or "\\" in text or not text.isprintable():
        raise InvalidDefinitionError(path, f"must be a relative path within the bundle but is {abridge(text)}")
    if len(text) > LONGEST_PATH or any(len(part.encode()) > LONGEST_PART for part in parts):
        raise InvalidDefinitionError(path, "is too long for a path in a bundle")
