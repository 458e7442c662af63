"""The folder of a local cluster: its data, its logs, and what a shell needs to speak to it.

`kafka/`, `postgres/` and `data/` are kept, so the next start continues; `logs/` has a file for each part.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compose.cluster.errors import NotStartedError


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """Paths below one folder, which is created with them."""

    path: Path

    def __post_init__(self) -> None:
        for each in (self.logs, self.data):
            each.mkdir(parents=True, exist_ok=True)

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def data(self) -> Path:
        """`STREAMSCHED_DATA_DIR` of every role."""
        return self.path / "data"

    @property
    def kafka(self) -> Path:
        return self.path / "kafka"

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    @property
    def environment(self) -> Path:
        """To be read by a shell: `. FILE`."""
        return self.path / "environment"

    def token_file(self, role: str) -> Path:
        """A file with the token of this role, which only its owner reads."""
        return self.path / f"{role}.token"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def write_environment(self, variables: Mapping[str, str]) -> None:
        """Writes `environment`: these variables, the token, and the commands of this Python on the PATH."""
        lines = [f"export {name}='{value}'" for name, value in variables.items()]
        lines += [
            f'export STREAMSCHED_TOKEN="$(cat "{self.token_file("admin")}")"',
            f'export PATH="{Path(sys.executable).parent}{os.pathsep}$PATH"',
        ]
        self.environment.write_text("\n".join(lines) + "\n")

    def write_secret(self, file: Path, text: str) -> None:
        """Writes a file that only its owner reads."""
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_text(text + "\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the folder's lock, which the operating system releases when this process ends.

        Raises:
            NotStartedError: another process runs a cluster in this folder.
        """
        with (self.path / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as exc:
                raise NotStartedError(f"another process runs the cluster of {self.path}") from exc
            yield
