"""Archives of bundles: plain tar files of regular files only, equal for equal folders. Every path is checked.

They are not compressed: what an archive would write is never more than the archive is long.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.programs.bundle import MOST_FILES, BundleFile, check_files

#: Names of files and folders that are never part of a bundle, besides those that begin with a dot.
LEFT_OUT: Final = frozenset({"__pycache__", "node_modules", "venv", "env", "spark-warehouse", "metastore_db"})
_SUFFIXES: Final = (".pyc", ".pyo")
_CHUNK: Final = 1024 * 1024


def folder_files(folder: Path, *, most_bytes: int) -> list[BundleFile]:
    """The files of a folder that its bundle has, by path, without `LEFT_OUT`, compiled Python and hidden names.

    Raises:
        InvalidDefinitionError: a link leads out of the folder, a name cannot be in a bundle, or there are too many
            files or bytes. The path is that of the file, or of the folder.
    """
    found = sorted(islice(_files_in(folder.resolve()), MOST_FILES + 1), key=lambda each: each.path)
    check_files(found, most_bytes=most_bytes, path=str(folder))
    return found


def _files_in(root: Path) -> Iterator[BundleFile]:
    for where, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if not _is_left_out(each))
        for each in (*folders, *names):
            path = Path(where, each)
            relative = path.relative_to(root).as_posix()
            if _is_left_out(each):
                continue
            if path.is_symlink() and (path.is_dir() or not path.resolve().is_relative_to(root)):
                raise InvalidDefinitionError(relative, "is a link to a folder, or out of the folder of the bundle")
            if path.is_file():
                status = path.stat()
                yield BundleFile(relative, status.st_size, bool(status.st_mode & 0o100))


def pack(folder: Path, files: list[BundleFile], output: BinaryIO) -> str:
    """Writes the archive of these files and returns its digest. Times and owners are left out, so that equal files give
    an equal archive.

    Raises:
        OSError: a file cannot be read, or has become shorter.
    """
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for each in files:
            entry = tarfile.TarInfo(each.path)
            entry.size, entry.mode = each.size, 0o755 if each.executable else 0o644
            with (folder / each.path).open("rb") as content:
                archive.addfile(entry, content)
    return digest_of(output)


def digest_of(archive: BinaryIO) -> str:
    """The SHA-256 of the whole file."""
    archive.seek(0)
    digest = hashlib.sha256()
    for chunk in chunks_of(archive):
        digest.update(chunk)
    return digest.hexdigest()


def chunks_of(archive: BinaryIO) -> Iterator[bytes]:
    """The file from its beginning, in chunks."""
    archive.seek(0)
    while chunk := archive.read(_CHUNK):
        yield chunk


def list_files(archive: BinaryIO, *, most_bytes: int) -> list[BundleFile]:
    """The files of an archive from outside.

    Raises:
        InvalidDefinitionError: it is no archive of a bundle: not a plain tar file; a link, a device, a sparse file; a
            path that leaves the folder; too many files or bytes.
    """
    archive.seek(0)
    try:
        with tarfile.open(fileobj=archive, mode="r:") as opened:
            found = [_file(entry) for entry in islice(opened, MOST_FILES + 1)]
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as exc:
        raise InvalidDefinitionError("$", f"is no tar archive: {exc}") from exc
    check_files(found, most_bytes=most_bytes)
    return found


def unpack(archive: BinaryIO, folder: Path, *, most_bytes: int, shared: bool = False) -> None:
    """Writes the files below the folder, which is empty; for their owner only, unless `shared`: then others read them.

    Raises:
        InvalidDefinitionError: as `list_files`.
        OSError: a file cannot be written.
    """
    list_files(archive, most_bytes=most_bytes)
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r:") as opened:
        for entry in opened:
            content = opened.extractfile(entry)
            assert content is not None
            path = folder / _file(entry).path
            path.parent.mkdir(parents=True, exist_ok=True)
            with content, path.open("xb") as file:
                while chunk := content.read(_CHUNK):
                    file.write(chunk)
            mode = 0o755 if entry.mode & 0o100 else 0o644
            path.chmod(mode if shared else mode & 0o700)
    for where, _, _ in os.walk(folder):
        Path(where).chmod(0o755 if shared else 0o700)


def _file(entry: tarfile.TarInfo) -> BundleFile:
    if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or entry.issparse() or entry.size < 0:
        raise InvalidDefinitionError(entry.name[:200] or "$", "is no regular file; a bundle has files only")
    return BundleFile(entry.name, entry.size, bool(entry.mode & 0o100))


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name in LEFT_OUT or name.endswith(_SUFFIXES)
