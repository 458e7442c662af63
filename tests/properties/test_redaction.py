"""Keeping secrets out of texts and streams, and archives of folders: laws."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.errors import InvalidError
from streamsched.process.bundle_archive import digest_of, folder_files, list_files, pack, unpack
from streamsched.secrets.redaction import Redaction

VALUES = st.lists(st.text(alphabet="ab=+/%\n é", min_size=4, max_size=12), max_size=3)
PIECES = st.lists(st.text(alphabet="ab=+/%\n é", max_size=20), max_size=8)


@given(VALUES, PIECES, st.data())
def test_a_stream_in_any_chunks_holds_no_secret_and_loses_nothing_else(
    values: list[str], pieces: list[str], data: st.DataObject
) -> None:
    for value in values:
        pieces.insert(data.draw(st.integers(0, len(pieces))), value)
    raw = "".join(pieces).encode()
    redaction, out, at = Redaction(values), b"", 0
    while at < len(raw):
        size = data.draw(st.integers(1, len(raw) - at))
        out += redaction.feed(raw[at : at + size])
        at += size
    out += redaction.end()

    assert not any(value.encode() in out for value in values)
    if not any(value in "".join(pieces) for value in values) and not values:
        assert out == raw


@given(PIECES, st.data())
def test_a_stream_without_a_secret_is_unchanged(pieces: list[str], data: st.DataObject) -> None:
    redaction = Redaction(["secret-value"])
    raw = "".join(pieces).encode() + b"secret-valu"
    cut = data.draw(st.integers(0, len(raw)))

    assert redaction.feed(raw[:cut]) + redaction.feed(raw[cut:]) + redaction.end() == raw


def test_usual_spellings_of_a_secret_are_replaced_too() -> None:
    value = 'p&ss "w/é'
    texts = ['p&ss "w/é', "p%26ss%20%22w%2F%C3%A9", "p%26ss+%22w%2F%C3%A9", 'p&ss \\"w/\\u00e9', "cCZzcyAidy/DqQ=="]

    for text in texts:
        assert Redaction([value]).text(f"<{text}>") == "<[secret]>", text


@given(
    st.dictionaries(
        st.from_regex(r"[a-c]{1,2}(/[d-f]{1,2})?\.txt", fullmatch=True), st.binary(max_size=2000), max_size=6
    )
)
def test_equal_folders_give_equal_archives_that_are_unpacked_again(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    digests = set()
    for order in (files, dict(reversed(files.items()))):
        folder = tmp_path_factory.mktemp("bundle")
        for name, content in order.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "x.pyc").write_bytes(b"")
        (folder / ".hidden").write_bytes(b"")
        archive = io.BytesIO()
        digests.add(pack(folder, folder_files(folder, most_bytes=10**6), archive))
        unpacked = tmp_path_factory.mktemp("unpacked")
        unpack(archive, unpacked, most_bytes=10**6)
        assert {each.relative_to(unpacked).as_posix(): each.read_bytes() for each in unpacked.rglob("*.*")} == files
        assert digest_of(archive) in digests

    assert len(digests) == 1


def _archive(entry: tarfile.TarInfo, content: bytes = b"") -> io.BytesIO:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(entry, io.BytesIO(content))
    return raw


def _entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    for field, value in fields.items():
        setattr(entry, field, value)
    return entry


SPARSE = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x", "GNU.sparse.realsize": str(2**50)}


@pytest.mark.parametrize(
    "archive",
    [
        _archive(_entry("../evil.py")),
        _archive(_entry("/etc/evil.py")),
        _archive(_entry("link", tarfile.SYMTYPE, linkname="/etc/passwd")),
        _archive(_entry("link", tarfile.LNKTYPE, linkname="../x")),
        _archive(_entry("folder", tarfile.DIRTYPE)),
        _archive(_entry("fifo", tarfile.FIFOTYPE)),
        _archive(_entry("null", tarfile.CHRTYPE)),
        _archive(_entry("sparse", pax_headers=SPARSE, size=512), b"1\n0\n1\n".ljust(512, b"\0")),
        io.BytesIO(b"\x1f\x8b" + bytes(1000)),
        io.BytesIO(b"no archive" * 200),
        io.BytesIO(_archive(_entry("cut", size=5000), bytes(5000)).getvalue()[:1000]),
    ],
    ids=["up", "absolute", "link", "hard link", "folder", "fifo", "device", "sparse", "gzip", "text", "cut"],
)
def test_a_hostile_archive_writes_nothing(archive: io.BytesIO, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()

    with pytest.raises((InvalidError, EOFError)):
        list_files(archive, most_bytes=10**6)
    with pytest.raises((InvalidError, EOFError)):
        unpack(archive, inside, most_bytes=10**6)

    assert [each.name for each in tmp_path.rglob("*")] == ["inside"]


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link.txt").symlink_to("/etc/passwd")

    with pytest.raises(InvalidError, match=r"link\.txt"):
        folder_files(tmp_path, most_bytes=10**6)
