"""Spark as a count: a `spark-submit` and a ResourceManager that note what they start and execute nothing.

Both start drivers that note `began RUN PID`, hold the lock of their job while they live, wait while there is a file
`held`, sleep, and note `done RUN`. A driver that finds the lock taken notes `overlap RUN`. With `--deploy-mode client`
the driver is `spark-submit` itself; with `cluster` it is a process of the manager, which knows it by its tag, as YARN
does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: `FOLDER` and `PORT` are replaced.
_SUBMIT = """#!{python} -SE
import fcntl, os, random, sys, time, urllib.request

folder, arguments = "{folder}", sys.argv[1:]

def note(*words):
    file = os.open(folder + "/notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (" ".join(words) + "\\n").encode())
    os.close(file)

def drive(run):
    lock = os.open(folder + "/locks/" + run.rpartition(".")[0], os.O_RDWR | os.O_CREAT)
    note("began", run, str(os.getpid()))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlap", run)
    while os.path.exists(folder + "/held"):
        time.sleep(0.02)
    until = time.monotonic() + float(open(folder + "/seconds").read()) * random.uniform(0.3, 1.0)
    while time.monotonic() < until:
        time.sleep(0.02)
    note("done", run)

run = arguments[arguments.index("--name") + 1]
if "cluster" not in arguments:
    drive(run)
else:
    time.sleep(random.uniform(0.0, 0.4))  # it uploads files
    urllib.request.urlopen("http://127.0.0.1:{port}/submit?run=" + run, data=b"").close()
    time.sleep(random.uniform(0.0, 0.4))
"""
_SITE = """<configuration><property><name>yarn.resourcemanager.webapp.address</name>
<value>127.0.0.1:{port}</value></property></configuration>"""


class FakeSpark:
    """The manager runs in threads of this process, until `close`.

    Attributes:
        notes: what drivers noted.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        self._apps: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        port = self._server.server_address[1]
        (folder / "locks").mkdir(parents=True)
        (folder / "seconds").write_text(str(seconds))
        self._submit = folder / "modules" / "pyspark" / "bin" / "spark-submit"
        self._submit.parent.mkdir(parents=True)
        (folder / "modules" / "pyspark" / "__init__.py").touch()
        self._submit.write_text(_SUBMIT.format(python=sys.executable, folder=folder, port=port))
        self._submit.chmod(0o755)
        (folder / "yarn-site.xml").write_text(_SITE.format(port=port))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def environ(self) -> dict[str, str]:
        """With which runners find it."""
        return {"PYTHONPATH": str(self.folder / "modules"), "HADOOP_CONF_DIR": str(self.folder)}

    def ends(self) -> dict[str, list[str]]:
        """The final states of the applications of each run; `UNDEFINED` of one that runs."""
        found: dict[str, list[str]] = {}
        with self._lock:
            for run, process in self._apps:
                found.setdefault(run, []).append(_app("", run, process)["finalStatus"])
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for _, process in self._apps:
            process.kill()
            process.wait()

    def answer(self, method: str, path: str) -> Any:
        """The body for a request; None: 404."""
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self._lock:
            if parts.path == "/submit":
                command = (str(self._submit), "--name", query["run"])
                self._apps.append((query["run"], subprocess.Popen(command, stdin=subprocess.DEVNULL)))
                return {}
            apps = [_app(f"application_1_{n}", *each) for n, each in enumerate(self._apps, 1)]
            if "applicationTags" in query:
                return {"apps": {"app": [each for each in apps if each["applicationTags"] == query["applicationTags"]]}}
            for app, (_, process) in zip(apps, self._apps, strict=True):
                if app["id"] in parts.path.split("/"):
                    if method == "PUT":
                        process.kill()
                    return {"app": app}
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                found = fake.answer(self.command, self.path)
                body = json.dumps(found).encode()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_GET  # noqa: N815 - names of the library

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        return Handler


def _app(name: str, run: str, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    code = process.poll()
    end = "UNDEFINED" if code is None else "SUCCEEDED" if code == 0 else "FAILED"
    state = "RUNNING" if code is None else "FINISHED" if code == 0 else "FAILED"
    return {"id": name, "applicationTags": run, "startedTime": 1, "state": state, "finalStatus": end}
