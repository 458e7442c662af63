"""What a run has committed as JSON: stored with the run, and in the API's view of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamsched.codec.events.native import dumps
from streamsched.domain.jobs.run_commit import RunCommit
from streamsched.domain.json_value import Json


def stored_member(commit: RunCommit) -> tuple[str, str]:
    """The name and the text of a member of the stored object."""
    return f"{commit.dataset} {commit.commit}", dumps(_to_json(commit)).decode()


def _to_json(commit: RunCommit) -> dict[str, Any]:
    return {
        "dataset": str(commit.dataset),
        "commit": commit.commit,
        "at": commit.at,
        "partitions": commit.partitions,
        "rows": commit.rows,
        "bytes": commit.bytes,
    }


def commit_views(stored: Mapping[str, Json] | None) -> list[Mapping[str, Any]]:
    """The commits of a stored object, oldest first."""
    found: list[Mapping[str, Any]] = [each for each in (stored or {}).values() if isinstance(each, dict)]
    return sorted(found, key=lambda each: (str(each.get("at")), str(each.get("commit"))))
