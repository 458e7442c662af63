"""The folder of an app as a bundle: what cannot be bundled is named by the path of the file, or of the folder."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.programs.bundle import MOST_FILES
from streamsched.process.bundle_archive import folder_files, pack


def refusal(folder: Path, most_bytes: int = 10**6) -> InvalidDefinitionError:
    with pytest.raises(InvalidDefinitionError) as refused:
        folder_files(folder, most_bytes=most_bytes)
    str(refused.value).encode()  # it can be printed
    return refused.value


def test_a_folder_with_too_many_files_is_refused_before_all_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    is_file = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda path: read.append(path.name) or is_file(path))
    (tmp_path / "0").touch()
    for number in range(1, MOST_FILES + 100):
        os.link(tmp_path / "0", tmp_path / str(number))

    refused = refusal(tmp_path)

    assert refused.path == str(tmp_path)
    assert "more than 10,000 files" in str(refused)
    assert len(read) == MOST_FILES + 1


def test_a_folder_with_too_many_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(101))

    assert refusal(tmp_path, most_bytes=100).path == str(tmp_path)


@pytest.mark.parametrize("name", [b"a\nb.py", b"a\\b.py", b"\xff\xfe.py", b"a\x1b[31m.py", b"a" * 201])
def test_a_hostile_name_is_refused_with_its_path(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).touch()

    refused = refusal(tmp_path)

    assert ".py" in refused.path or refused.path == name.decode()
    assert refused.path.isprintable()


def test_a_link_out_of_the_folder_is_refused_with_its_path(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (tmp_path / "secret").touch()
    (code / "link.py").symlink_to(tmp_path / "secret")

    assert refusal(code).path == "link.py"


def test_a_file_that_becomes_shorter_is_not_packed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print(1)")
    files = folder_files(tmp_path, most_bytes=100)
    (tmp_path / "a.py").write_text("")

    with pytest.raises(OSError, match="unexpected end of data"):
        pack(tmp_path, files, io.BytesIO())
