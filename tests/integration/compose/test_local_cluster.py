"""`make cluster`: its processes, its acceptance drive, and what it leaves behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest
import yaml

from compose.cluster.errors import NotStartedError
from compose.cluster.folder import ClusterFolder
from compose.cluster.local_cluster import LocalCluster
from compose.cluster.part import Part, answers_ok
from compose.cluster.ports import HOST, USUAL, free_ports, usual_ports
from compose.cluster.prometheus import scrape_config
from compose.cluster.report import WIDTH, report
from compose.cluster.roles import role_parts
from tests.support.os_users import os_users
from tests.support.services import in_ci, need_kafka_jars, need_program

ROOT = Path(__file__).parents[3]


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.torture
@pytest.mark.timeout(500)
def test_the_drive_goes_through_kills_and_a_program_gets_nothing_of_another_namespace() -> None:
    """The programs of two namespaces run as two users and try what they can reach; only the superuser makes users.
    Nothing is left of all.
    """
    need_kafka_jars()
    with os_users("first", "second") if os.geteuid() == 0 or in_ci() else nullcontext(()) as users:
        names = [user.pw_name for user in users]
        run_as = ("--run-as", ",".join(map("=".join, zip(("sales", "finance"), names, strict=True)))) if names else ()
        command = (sys.executable, "-m", "compose.cluster", "--check", "--without-spark", *run_as)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=450, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("24 events, 12 jobs: all completed, each once") == 2
    assert not names or f"as user {names[0]}, got nothing of finance nor of the scheduler" in done.stdout
    pids = [int(pid) for pid in re.findall(r"^\S+ .* (\d+)$", done.stdout.partition("\n\n")[0], flags=re.MULTILINE)]
    assert len(pids) >= 7
    assert not [pid for pid in pids if runs(pid)]


def runs(pid: int) -> bool:
    """False for a zombie too: where process 1 reaps no orphans, an ended server of an ended parent remains as one."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def cluster(folder: Path) -> LocalCluster:
    """One that is not started."""
    made = LocalCluster(
        ClusterFolder(folder), USUAL, with_spark=True, with_prometheus=True, say=lambda _: pytest.fail("ended")
    )
    made.parts = {part.name: part for part in role_parts(made.folder, made.ports, {})}
    made.folder.postgres.mkdir(parents=True)
    (made.folder.postgres / "postmaster.pid").write_text("4194304\n")
    return made


def test_the_report_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    lines = list(report(cluster(tmp_path)))

    assert len(lines) >= 10
    assert [line for line in lines if len(line) > WIDTH and str(tmp_path) not in line] == []


def test_a_port_that_is_in_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as taken:
        monkeypatch.setattr("compose.cluster.ports.USUAL", {"api": taken.getsockname()[1]})
        with pytest.raises(NotStartedError, match=r"port \d+ of api is in use; --free-ports"):
            usual_ports()


def test_free_ports_differ() -> None:
    assert len(set(free_ports().values())) == len(USUAL)


def test_a_folder_has_one_cluster(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    with (
        folder.locked(),
        pytest.raises(NotStartedError, match="another process runs"),
        ClusterFolder(tmp_path).locked(),
    ):
        pytest.fail("two clusters in one folder")


def test_tokens_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    folder.write_secret(folder.token_file("admin"), "secret")

    assert folder.token_file("admin").stat().st_mode & 0o777 == 0o600


def part(folder: Path, command: str) -> Part:
    return Part("p", "", "", ("sh", "-c", command), {"PATH": "/usr/bin:/bin"}, folder / "p.log", answers_ok("http://x"))


async def test_a_part_that_ends_is_reported_with_its_log(tmp_path: Path) -> None:
    made = cluster(tmp_path)
    broken = part(tmp_path, "echo no such database; exit 3")
    made.parts = {"p": broken}
    broken.start()
    assert broken.process is not None
    broken.process.wait()

    with pytest.raises(NotStartedError, match=r"p ended \(3\):\nno such database"):
        await made.until_healthy()


def test_a_part_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compose.cluster.part.STOP_SECONDS", 0.1)
    stubborn = part(tmp_path, "trap '' TERM; echo deaf; exec sleep 60")
    stubborn.start()
    while not (tmp_path / "p.log").read_text():
        pass
    stubborn.stop()

    assert stubborn.ended == -signal.SIGKILL


def test_the_scrape_configuration_is_valid(tmp_path: Path) -> None:
    promtool = need_program("promtool", "prometheus")
    token, config = tmp_path / "token", tmp_path / "prometheus.yaml"
    token.write_text("sst_x")
    config.write_text(yaml.safe_dump(scrape_config(USUAL, token, ROOT / "compose" / "prometheus" / "alerts.yaml")))

    done = subprocess.run((promtool, "check", "config", str(config)), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
