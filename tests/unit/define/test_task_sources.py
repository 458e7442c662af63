"""Where the tasks of a `tasks.json` come from: files, folders, HTTP, entry points; and a source that is watched."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from streamsched.define.task_sources import WatchedTasks, find_source
from streamsched.domain.errors import DecodeError, InvalidError, NotFoundError, UnavailableError

TASKS = {"a": {"bash_cmd": "true"}}


def read(address: object) -> Any:
    return find_source(str(address))(str(address))


class _Answers(BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, tuple[int, bytes]]] = {
        "/tasks.json": (200, json.dumps(TASKS).encode()),
        "/bad": (200, b"{"),
        "/gone": (404, b"{}"),
    }

    def do_GET(self) -> None:
        status, body = self.answers[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - as the base class names it


@pytest.fixture
def server() -> Iterator[str]:
    serving = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_a_file_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(TASKS))
    (tmp_path / "two.yaml").write_text("b: {bash_cmd: 'true'}")
    (tmp_path / ".hidden.json").write_text("{")
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / "deeper.json").mkdir()
    assert read(tmp_path / "one.json") == TASKS
    assert list(read(tmp_path)) == ["a", "b"]
    with pytest.raises(NotFoundError):
        read(tmp_path / "none.json")
    (tmp_path / "three.json").write_text(json.dumps(TASKS))
    with pytest.raises(InvalidError, match=r"three\.json \$\.a: is defined in .*one\.json, too"):
        read(tmp_path)
    (tmp_path / "three.json").write_text("[]")
    with pytest.raises(DecodeError, match="must be an object of tasks by name"):
        read(tmp_path)


def test_a_folder_without_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="has no file that ends in"):
        read(tmp_path)


def test_a_server(server: str) -> None:
    assert read(f"{server}/tasks.json") == TASKS
    with pytest.raises(DecodeError, match="is not valid JSON"):
        read(f"{server}/bad")
    with pytest.raises(UnavailableError, match="404"):
        read(f"{server}/gone")
    with pytest.raises(InvalidError, match="names no server"):
        read("http://")


def test_a_server_that_is_away() -> None:
    with pytest.raises(UnavailableError, match="cannot be read"):
        read("http://127.0.0.1:9/tasks.json")


def test_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xyz_source.py").write_text("def read(address):\n    return {address.rpartition('/')[2]: {}}\n")
    package = tmp_path / "xyz_source-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: xyz-source\nVersion: 1\n")
    points = "[streamsched.task_sources]\nxyz = xyz_source:read\nbroken = xyz_source:none\n"
    (package / "entry_points.txt").write_text(points)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert read("xyz://host/tasks") == {"tasks": {}}
    with pytest.raises(InvalidError, match="'broken' cannot be loaded: AttributeError"):
        read("broken://host")
    with pytest.raises(InvalidError, match=r"no 'redis' of group streamsched.task_sources .*http, https, xyz"):
        read("redis://host")


def test_a_watched_folder_is_deployed_when_its_tasks_are_others(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text(json.dumps(TASKS))
    deployed: list[Any] = []
    watched = WatchedTasks(lambda: read(tmp_path), deployed.append)
    assert [watched.step(), watched.step()] == [True, False]
    file.write_text(json.dumps(TASKS, indent=4))
    assert not watched.step(), "the text is another, the tasks are not"
    file.write_text("{")
    with pytest.raises(DecodeError):
        watched.step()
    file.write_text(json.dumps(TASKS))
    assert not watched.step(), "what was deployed before stays"
    (tmp_path / "two.json").write_text(json.dumps({"b": {}}))
    assert watched.step()
    (tmp_path / "two.json").unlink()
    assert watched.step()
    assert deployed == [TASKS, {**TASKS, "b": {}}, TASKS]


def test_the_order_of_tasks_counts_and_a_refused_deployment_is_tried_again() -> None:
    values = [{"a": {}, "b": {}}, {"b": {}, "a": {}}, {"b": {}, "a": {}}]
    refusing = [False, True, False]

    def deploy(_: Any) -> None:
        if refusing.pop(0):
            raise UnavailableError("the server is away")

    watched = WatchedTasks(lambda: values.pop(0), deploy)
    assert watched.step()
    with pytest.raises(UnavailableError):
        watched.step()
    assert watched.step()
