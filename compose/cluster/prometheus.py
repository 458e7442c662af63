"""Prometheus as a part of a local cluster: it scrapes every role, with the rules of `compose/prometheus`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from compose.cluster.folder import ClusterFolder
from compose.cluster.part import Part, answers_ok
from compose.cluster.ports import HOST
from compose.cluster.roles import ROLES

RULES: Final = Path(__file__).parents[1] / "prometheus" / "alerts.yaml"


def prometheus_part(folder: ClusterFolder, ports: Mapping[str, int]) -> Part | None:
    """Prometheus, or None where it is not installed (Debian: `apt-get install prometheus`)."""
    program = shutil.which("prometheus")
    if program is None:
        return None
    config = folder.path / "prometheus.yaml"
    config.write_text(yaml.safe_dump(scrape_config(ports, folder.token_file("viewer"), RULES), sort_keys=False))
    url = f"http://{HOST}:{ports['prometheus']}"
    return Part(
        name="prometheus",
        purpose="metrics and alerts",
        where=url,
        command=(
            *(program, f"--config.file={config}", f"--storage.tsdb.path={folder.path / 'prometheus'}"),
            *(f"--web.listen-address={HOST}:{ports['prometheus']}", "--storage.tsdb.retention.time=1d"),
        ),
        environ=dict(os.environ),
        log=folder.log("prometheus"),
        healthy=answers_ok(f"{url}/-/ready"),
    )


def scrape_config(ports: Mapping[str, int], token: Path, rules: Path) -> dict[str, Any]:
    """The API's metrics need a viewer's token; workers and launchers serve theirs on the port of health checks."""
    probed = [name for name, role in ROLES.items() if role != "api"]
    return {
        "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
        **({"rule_files": [str(rules)]} if rules.exists() else {}),
        "scrape_configs": [
            {
                "job_name": "streamsched-api",
                "authorization": {"credentials_file": str(token)},
                "static_configs": [_target("api", ports["api"])],
            },
            {"job_name": "streamsched", "static_configs": [_target(name, ports[name]) for name in probed]},
        ],
    }


def _target(name: str, port: int) -> dict[str, Any]:
    return {"targets": [f"{HOST}:{port}"], "labels": {"part": name, "role": ROLES[name]}}
