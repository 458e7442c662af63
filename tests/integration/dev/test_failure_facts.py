"""What a program that was started by a failure is given about it, through real processes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

#: The end of the failing program's log: everything that is syntax somewhere.
LAST = """it's "over" {trigger.job} {nothing} $HOME `id` $(id) \\ \\n %0d%0a <b>&amp; 'ä' 日本 \U0001f600 """
APP = """
from pathlib import Path
from streamsched import App, event, program

app = App("alarms")
bad = app.bash("bad", "cat said; exit 3")
webhook = app.http(
    "webhook",
    "{url}/webhook?run={{trigger.run}}&error={{trigger.error}}",
    headers={{"Title": "{{trigger.program}} {{trigger.outcome}}: {{trigger.error}}"}},
    body='{{"text": "{{trigger.error}} | {{trigger.log_tail}}"}}',
)
plain = app.http("plain", "{url}/plain")
note = app.bash("note", 'printf %s "$STREAMSCHED_ARG_TRIGGER_LOG_TAIL" > tail; env > env')
say = app.publish("say", "broken", attributes={{"tail": "{{trigger.log_tail}}", "run": "{{trigger.run}}"}})
end = app.bash("end", "cp $STREAMSCHED_RUN_FILE end.json")
app.schedule("start", bad, when=event("go"))
for each in (webhook, plain, note, say):
    app.schedule("on-" + each.name, each, when=program(bad, "failed"))
app.schedule("end", end, when=event("broken"))
"""


class Caught(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    requests: dict[str, tuple[dict[str, list[str]], dict[str, str], bytes]]

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests[parts.path] = parse_qs(parts.query), dict(self.headers), body
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
        pass


@pytest.fixture
def webhook() -> Iterator[ThreadingHTTPServer]:
    Caught.requests = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Caught)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_failure_tells_its_run_its_error_and_the_end_of_its_log(webhook: ThreadingHTTPServer, tmp_path: Path) -> None:
    flood = b"".join(b"line %d \x1b[31m\x00\xff\xfe\n" % n for n in range(60_000))
    assert len(flood) > 1 << 20
    (tmp_path / "said").write_bytes(flood + LAST.encode() + b"\r\n")
    (tmp_path / "app.py").write_text(APP.format(url=f"http://127.0.0.1:{webhook.server_port}"))
    dev = DevProcess(tmp_path)
    try:
        dev.start()
        assert dev.run("deploy", "app.py").code == 0
        assert dev.run("event", "emit", "custom", "go").code == 0
        names = ("start", "on-webhook", "on-plain", "on-note", "on-say", "end")
        runs = [f"default.alarms.{name}.1.1.r1" for name in names]

        def ended() -> bool:
            found = {each["id"]: each["state"] for each in dev.run("run", "list", "-o", "json").json}
            return all(found.get(run) in ("COMPLETED", "FAILED") for run in runs)

        dev.until(ended)
        states = {each["id"]: each["state"] for each in dev.run("run", "list", "-o", "json").json}
    finally:
        dev.close()

    assert [states[run] for run in runs] == ["FAILED", *["COMPLETED"] * 5]
    query, headers, body = Caught.requests["/webhook"]
    assert query["run"] == [runs[0]]
    assert LAST.strip() in query["error"][0]
    assert headers["Title"].encode("latin-1").decode().startswith("default.alarms.bad failed: exit code 3: it's")
    assert headers["Content-Type"] == "application/json"
    text = json.loads(body)["text"]
    error, _, tail = text.partition(" | line")
    assert LAST.strip() in error
    assert tail.splitlines()[-1].strip() == LAST.strip()
    assert len(tail) <= 2000
    assert len(tail.splitlines()) == 20
    assert "\x00" not in text
    assert "\x1b" not in text
    arguments = json.loads(Caught.requests["/plain"][2])["arguments"]
    assert arguments["trigger.run"] == runs[0]
    assert arguments["trigger.program"] == "default.alarms.bad"
    assert (tmp_path / "tail").read_text() == arguments["trigger.log_tail"]
    (said,) = json.loads((tmp_path / "end.json").read_text())["trigger"]["leaves"][0]["events"]
    assert said["data"]["attributes"] == {"tail": arguments["trigger.log_tail"], "run": runs[0]}
