"""The table of figures, on a made-up tree and on a made-up repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.architecture import figures
from tests.architecture.figures import Kind, classify, main, measure, read_commit, read_working_tree, render

MODULE = '''"""What it is.

More of it.
"""

from typing import (
    Protocol,
)

# a comment
class Port(Protocol):
    """A port."""

    def ask(self) -> str:
        return """
# no comment, and no blank line:

"""  # code
'''

TREE = {
    "streamsched/log/topics.py": MODULE,
    "streamsched/log/deep/topic.py": "class Other(Protocol[int]):\n    pass\n",
    "streamsched/runner.py": "x = 1\n",
    "streamsched/store/jobs.sql": "-- name: one\nSELECT 1;\n",
    "streamsched/adr/0001.md": "# First\n\nText",
    "streamsched/adr/README.md": "# Index\n",
    "brokers/kafka.py": "x = 1\n" * 401,
    "migrations/versions/0001_initial.py": "",
    "migrations/env.py": "",
    "tests/unit/test_it.py": "assert True\n\n",
    "README.md": "# A product\n",
}


def test_each_line_has_a_kind() -> None:
    docstring, blank, code = Kind.DOCSTRING, Kind.BLANK, Kind.CODE
    imports = [Kind.IMPORT] * 3
    body = [code, docstring, blank, *[code] * 5]
    assert list(classify(MODULE)) == [*[docstring] * 4, blank, *imports, blank, Kind.COMMENT, *body]


def test_a_made_up_tree_is_counted() -> None:
    found = measure(TREE)

    assert {name: count for (name, kind), count in found.rooms.items() if kind is Kind.CODE} == {
        "log": 8,
        "(modules)": 1,
        "brokers": 401,
    }
    assert found.counts == {
        "modules": 4,
        "modules above 400 lines": 1,
        "Protocols": 2,
        "SQL lines": 2,
        "migrations": 1,
        "ADRs": 1,
        "lines of ADRs": 3,
        "test modules": 1,
        "test lines": 2,
        "test modules above 400 lines": 0,
    }
    assert set(found.counts) == set(figures.COUNTS)


def test_the_table_shows_trees_side_by_side_and_what_has_gone() -> None:
    before = measure({**TREE, "streamsched/gone.d/old.py": "x = 1\ny = 2\n"})
    lines = render({"old": before, "now": measure(TREE)}).splitlines()

    rows = {line[:40].strip(): line[40:].split() for line in lines}
    assert max(map(len, lines)) == 80
    assert rows["product, code"] == ["412", "410", "1.00"]
    assert rows["gone.d"] == ["2"]
    assert rows["log"] == ["8", "8", "1.00"]
    assert rows["modules"] == ["5", "4", "0.80"]


def test_a_commit_and_the_working_tree_are_read(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet")
    (tmp_path / "one.py").write_text("x = 'ä'\n")
    (tmp_path / "picture.png").write_bytes(b"\xff")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    (tmp_path / "one.py").unlink()
    (tmp_path / "two.py").write_text("y = 2\n")

    assert read_commit(tmp_path, "HEAD") == {"one.py": "x = 'ä'\n"}
    assert read_working_tree(tmp_path) == {"two.py": "y = 2\n"}


def test_no_more_commits_than_the_page_is_wide(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--commit", "a", "--commit", "b", "--commit", "c", "--commit", "d"])
    assert "at most 3 commits" in capsys.readouterr().err
