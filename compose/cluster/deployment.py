"""Deploying to a local cluster by its command, as its users do."""

from __future__ import annotations

import asyncio
from pathlib import Path

from compose.cluster.errors import DriveFailedError
from compose.cluster.local_cluster import LocalCluster
from compose.cluster.roles import streamsched


async def deploy(cluster: LocalCluster, folder: Path, name: str) -> str:
    """Deploys a file of the folder; returns what the command printed.

    Raises:
        DriveFailedError: it failed.
    """
    process = await asyncio.create_subprocess_exec(
        *streamsched("deploy", name),
        cwd=folder,
        env={**cluster.environ, "STREAMSCHED_URL": cluster.api, "STREAMSCHED_TOKEN": cluster.token},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise DriveFailedError(f"{name} was not deployed:\n{output.decode()}")
    return output.decode()
