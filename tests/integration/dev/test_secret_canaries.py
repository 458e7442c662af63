"""Secrets in every field that may have one, on a real `streamsched dev`: no value is anywhere but in the programs."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import asyncpg
import httpx
import pytest

from streamsched.store.server.embedded_server import start_server
from tests.support.dev_process import DevProcess
from tests.support.mail_server import MailBox, receiving_mail, text_of

#: The values, by the variables or keys that have them.
CANARIES: Final = {
    "SHOP_ENV": "canary-env-91c",
    "SHOP_URL": "canary-url-5e2",
    "SHOP_CONF": "canary-conf-0b4",
    "SHOP_PROFILE": "canary/profile?7f1",
    "key": "canary-file-3d7",
}
APP = """
from streamsched import App, secret
app = App("shop", on_failure="team@example.org")
key = secret("file:SECRETS/key.json#key")
app.python("tool", "tool:run", env={"A": secret("env:SHOP_ENV"), "B": key})
app.python("denied", "tool:run", env={"A": secret("env:HOME")})
app.spark("join", main="join.py", profile="big", conf={"spark.shop.key": secret("env:SHOP_CONF")}, env={"B": key})
app.http(
    "hook",
    f"ECHO/{secret('env:SHOP_URL')}",
    headers={"Authorization": f"Bearer {secret('env:SHOP_ENV')}"},
    body=f"b={key}",
)
"""
TOOL = """
import os
def run():
    print("values", os.environ["A"], os.environ["B"], os.environ.get("SHOP_ENV"), flush=True)
    raise ValueError(os.environ["A"])
"""
JOIN = """
import base64, os
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
conf = spark.sparkContext.getConf()
values = os.environ["B"], conf.get("spark.shop.key"), conf.get("spark.shop.pass")
print("values", *values, base64.b64encode(values[0].encode()).decode(), os.environ.get("SHOP_CONF"), flush=True)
raise ValueError(values[2])
"""
PROFILE = {"conf": {"spark.shop.pass": {"secret": "env:SHOP_PROFILE"}}, "reason": "for all"}
PROGRAMS = ("tool", "denied", "hook", "join")


class Echo(BaseHTTPRequestHandler):
    """Refuses every request with all that it has."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        said = f"{self.path} {self.headers} {body.decode()}".encode()
        self.send_response(500)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class names it
        """Writes nothing."""


class CommandLines:
    """What all processes of this machine have in their command lines, while it is read again and again."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._end.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes())
                except OSError:  # it has ended
                    continue


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def dev(tmp_path: Path, echo: str) -> Iterator[DevProcess]:
    secrets = tmp_path / "secrets"
    folder = tmp_path / "shop"
    secrets.mkdir()
    folder.mkdir()
    (secrets / "key.json").write_text(json.dumps({"key": CANARIES["key"]}))
    (folder / "shop.py").write_text(APP.replace("SECRETS", str(secrets)).replace("ECHO", echo))
    (folder / "tool.py").write_text(TOOL)
    (folder / "join.py").write_text(JOIN)
    process = DevProcess(folder)
    yield process
    process.close()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_no_value_of_a_secret_is_anywhere(dev: DevProcess, tmp_path: Path) -> None:
    rules = f"default=env:SHOP_*,default=file:{tmp_path}/secrets/"
    variables = {name: value for name, value in CANARIES.items() if name != "key"}
    lines = CommandLines()
    with receiving_mail() as box:
        variables |= {
            "STREAMSCHED_SMTP_URL": f"smtp+plain://127.0.0.1:{box.port}",
            "STREAMSCHED_MAIL_FROM": "scheduler@example.org",
            "STREAMSCHED_MAIL_TO": "*=@example.org",
        }
        said = dev.start(STREAMSCHED_SECRETS=rules, STREAMSCHED_SPARK_MASTER="local[1]", **variables)
        url = re.findall(r"http://[\w.:]+", said)[0]
        runs, answers, dumped = _ended(dev, url, lambda: _mailed(box))
        mails = "\n".join(each.as_string() + text_of(each) for each in box.mails)
    shown = dev.run("run", "list", within=300.0)
    lines.close()
    dev.stop()

    reasons = {each["program"].rpartition(".")[2]: each["reason"] for each in runs}
    for name in ("tool", "hook", "join"):
        assert "[secret]" in reasons[name], reasons
    assert "$.env.A: secret env:HOME may not be used" in reasons["denied"]
    logs = "\n".join(path.read_text() for path in (dev.state / "logs").iterdir())
    assert "values [secret] [secret] None" in logs
    assert "values [secret] [secret] None" in mails
    assert f"{url}/ui/runs/" in mails
    assert "values [secret] [secret] [secret] [secret] None" in logs
    assert "default.shop.join" in dumped
    assert b"org.apache.spark.deploy.SparkSubmit" in b"".join(lines.seen)
    texts = {"answers": "\n".join(answers), "database": dumped, "command lines": str(lines.seen), "mails": mails}
    texts |= {"list": shown.out + shown.err, "dev": said + dev.said_at_end}
    texts |= {str(path): path.read_bytes().decode(errors="replace") for path in dev.folder.rglob("*") if path.is_file()}
    found = [(where, form) for where, text in texts.items() for form in _forms() if form in text]
    assert found == []
    assert not list((dev.state / "runs").glob("*.conf"))


def _mailed(box: MailBox) -> bool:
    """Whether the log of the Python program is in a mail; the second message comes a minute after the first."""
    return any("values [secret]" in text_of(each) for each in box.mails)


def _ended(dev: DevProcess, url: str, mailed: Callable[[], bool]) -> tuple[list[dict[str, Any]], list[str], str]:
    """Deploys and runs everything; the runs, what the API answers about them, and all rows of the database."""
    with httpx.Client(base_url=url, headers=dev.authorization, timeout=120.0) as client:
        made = client.put("/v1/namespaces/default/spark-profiles/big", json=PROFILE)
        assert made.status_code == 200, made.text
        deployed = dev.run("deploy", "shop.py", "--bundle", "--yes", within=300.0)
        assert deployed.code == 0, deployed.err
        assert not any(form in deployed.out + deployed.err for form in _forms())
        for name in PROGRAMS:
            assert client.post(f"/v1/programs/default.shop.{name}/runs", json={}).status_code < 300

        def ended() -> list[dict[str, Any]]:
            runs = client.get("/v1/runs").json()["runs"]
            return runs if len(runs) == len(PROGRAMS) and all(each["endedAt"] for each in runs) else []

        runs = dev.until(ended, within=600.0)
        dev.until(mailed, within=180.0)
        return runs, _answers(client, runs), asyncio.run(_dump(dev.state / "postgres"))


def _forms() -> set[str]:
    """The values as they are and as they may be written."""
    forms = set(CANARIES.values()) | {quote(each, safe="") for each in CANARIES.values()}
    return (
        forms | {each.encode().hex() for each in forms} | {base64.b64encode(each.encode()).decode() for each in forms}
    )


#: It ends after the seconds that it is asked for.
STREAM = "/v1/decisions"


def _answers(client: httpx.Client, runs: list[dict[str, Any]]) -> list[str]:
    """What the API answers to every GET whose path is made of things that exist."""
    known: dict[str, list[str]] = {"namespace": ["default", "*"], "app": ["shop"], "profile": ["big"]}
    known |= {"program": [f"default.shop.{name}" for name in PROGRAMS], "run": [each["id"] for each in runs]}
    known |= {"job": [each["job"] for each in runs if each.get("job")]}
    found: list[str] = []
    for path, operations in client.get("/v1/openapi.json").json()["paths"].items():
        names = re.findall(r"{(\w+)}", path)
        if "get" not in operations or not all(name in known for name in names):
            continue
        paths = [path]
        for name in names:
            paths = [each.replace(f"{{{name}}}", quote(value)) for each in paths for value in known[name]]
        found += [
            client.get(each, params={"seconds": 1, "after": 0} if path == STREAM else None).text for each in paths
        ]
    assert len(found) > 30
    return found


async def _dump(folder: Path) -> str:
    """All rows of all tables as text, binary columns in hexadecimal digits; the scheduler is running."""
    server = start_server(folder)
    assert server.found
    connection = await asyncpg.connect(server.url)
    try:
        names = await connection.fetch("SELECT datname FROM pg_database WHERE NOT datistemplate")
    finally:
        await connection.close()
    return "\n".join([await _rows(server.url.replace("/postgres?", f"/{each['datname']}?")) for each in names])


async def _rows(url: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT oid::regclass::text AS name FROM pg_class "
            "WHERE relkind IN ('r', 'm') AND relnamespace::regnamespace::text !~ '^(pg_|information_schema)'"
        )
        rows = [await connection.fetch(f"SELECT t::text AS row FROM {each['name']} t") for each in tables]
    finally:
        await connection.close()
    return "\n".join(each["row"] for table in rows for each in table)
