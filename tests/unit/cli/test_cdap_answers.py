"""Answers of CDAP from a server and from a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from streamsched.dialects.cdap.codec.dump.dump import DumpRequest, import_dump
from streamsched.dialects.cdap.import_answers import FolderAnswers, HttpAnswers, SavingAnswers
from streamsched.domain.errors import DecodeError, InvalidError, UnavailableError
from tests.support.cdap_dump import Answers, SavedAnswers, dump, save

SMALL = dump(20, 4, 5, busy=2)


class CdapServer:
    """A CDAP that answers what `answers` has. `odd`: a status, or a body, in place of that of a path."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.odd: dict[str, Any] = {}
        self.paged = True
        self.asked: list[str] = []
        self.authorization: set[str | None] = set()
        server = self

        class _Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = tuple(unquote(each) for each in parts.path.removeprefix("/v3/").split("/"))
        self.asked.append(request.path)
        self.authorization.add(request.headers.get("Authorization"))
        odd = self.odd.get("/".join(path))
        if isinstance(odd, int):
            request.send_response(odd)
            request.send_header("Location", "http://127.0.0.1:1/stolen")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        found = self.answers.get(path)
        if found is not None and path[2:] == ("apps",) and "pageSize" in query and self.paged:
            found = self._page(found, query)
        elif found is not None and "limit" in query:
            found = found[: int(query["limit"])]
        body = odd if isinstance(odd, bytes) else json.dumps(found).encode()
        request.send_response(404 if found is None else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    @staticmethod
    def _page(found: list[Any], query: dict[str, str]) -> dict[str, Any]:
        names = [each["name"] for each in found]
        begin = names.index(query["pageToken"]) + 1 if "pageToken" in query else 0
        page = found[begin : begin + 1]
        token = page[-1]["name"] if begin + 1 < len(found) else None
        return {"applications": page, **({"nextPageToken": token} if token else {})}


@pytest.fixture
def cdap() -> Iterator[CdapServer]:
    made = CdapServer(SMALL)
    yield made
    made.close()


@pytest.mark.parametrize("paged", [True, False])
def test_a_server_and_a_folder_and_what_is_saved_give_the_same(cdap: CdapServer, paged: bool, tmp_path: Path) -> None:
    cdap.paged = paged
    save(SMALL, tmp_path / "curl")
    expected = import_dump(SavedAnswers(SMALL), DumpRequest())

    live = import_dump(SavingAnswers(HttpAnswers(cdap.url, {}), tmp_path / "saved"), DumpRequest())

    assert live == expected
    assert import_dump(FolderAnswers(tmp_path / "curl"), DumpRequest()) == expected
    assert import_dump(FolderAnswers(tmp_path / "saved"), DumpRequest()) == expected
    assert len([each for each in cdap.asked if "pageSize" in each]) == (4 if paged else 2)
    assert cdap.authorization == {None}


def test_the_token_is_given_to_the_server_and_to_no_other(cdap: CdapServer) -> None:
    answers = HttpAnswers(f"{cdap.url}/v3/", {"CDAP_ACCESS_TOKEN": "secret"})
    cdap.odd["namespaces"] = 302

    with pytest.raises(DecodeError, match="namespaces: the server answers 302"):
        answers.read("namespaces")
    assert cdap.authorization == {"Bearer secret"}


def test_a_failing_address_is_a_row_and_the_rest_is_read(cdap: CdapServer) -> None:
    cdap.odd["namespaces/default/apps/app00/workflows/report"] = 500
    cdap.odd["namespaces/default/apps/app02"] = b"<html>"

    found = import_dump(HttpAnswers(cdap.url, {}), DumpRequest())

    refused = {note.path: note.text for note in found.imported.notes if note.kind == "refused"}
    assert "the server answers 500" in refused["namespaces/default/apps/app00/workflows/report"]
    assert "is not valid JSON" in refused["namespaces/default/apps/app02"]
    assert len(found.imported.apps) == 4


def test_a_server_that_is_gone_or_wants_a_token_ends_the_import(cdap: CdapServer) -> None:
    cdap.odd["namespaces/sales/apps"] = 401

    with pytest.raises(UnavailableError, match="answers 401: set CDAP_ACCESS_TOKEN"):
        import_dump(HttpAnswers(cdap.url, {}), DumpRequest())
    with pytest.raises(UnavailableError, match="cannot be read"):
        HttpAnswers("http://127.0.0.1:1", {}).read("namespaces")
    with pytest.raises(InvalidError, match="is no URL such as"):
        HttpAnswers("ftp://cdap", {})


def test_pages_that_repeat_end(cdap: CdapServer) -> None:
    cdap.odd["namespaces/default/apps"] = b'{"applications": [{"name": "app00"}], "nextPageToken": "app00"}'

    assert HttpAnswers(cdap.url, {}).read("namespaces", "default", "apps") == [{"name": "app00"}] * 2


def test_a_folder_without_lists_has_what_is_in_it(tmp_path: Path) -> None:
    save({path: each for path, each in SMALL.items() if path[-1] not in ("namespaces", "apps")}, tmp_path)

    assert import_dump(FolderAnswers(tmp_path), DumpRequest()) == import_dump(SavedAnswers(SMALL), DumpRequest())


def test_an_empty_folder_and_a_file_that_is_no_json(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="namespaces: there is no such answer"):
        import_dump(FolderAnswers(tmp_path), DumpRequest())

    (tmp_path / "namespaces.json").write_text("{no")
    with pytest.raises(DecodeError, match="namespaces: is not valid JSON"):
        import_dump(FolderAnswers(tmp_path), DumpRequest())


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_no_name_leads_out_of_the_folder_or_to_another_address(cdap: CdapServer, name: str, tmp_path: Path) -> None:
    (tmp_path / "apps.json").write_text("{}")
    for answers in (FolderAnswers(tmp_path / "namespaces"), HttpAnswers(cdap.url, {})):
        with pytest.raises(DecodeError, match="no address can have"):
            answers.read("namespaces", name, name)
    assert cdap.asked == []


def test_a_slash_is_a_part_of_a_name(cdap: CdapServer, tmp_path: Path) -> None:
    odd: Answers = {("namespaces", "../../x y", "apps"): [{"name": "a/b"}]}
    save(odd, tmp_path)
    cdap.answers = odd

    for answers in (FolderAnswers(tmp_path), HttpAnswers(cdap.url, {})):
        assert answers.read("namespaces", "../../x y", "apps") == [{"name": "a/b"}]
