"""Answers of CDAP: from its REST API, or from a folder where they were saved.

In a folder the answer at `/v3/namespaces/default/apps` is `namespaces/default/apps.json`, and so on; a segment is
written as in the URL, so a space is `%20`. Where a list is missing, what is in its folder is the list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

import orjson

from streamsched.dialects.cdap.codec.dump.answers import LARGEST, CdapAnswers, answer_path
from streamsched.dialects.cdap.codec.dump.dump import MOST_APPS
from streamsched.domain.errors import DecodeError, InvalidError, UnavailableError

#: The variable with the token that CDAP asks for.
TOKEN: Final = "CDAP_ACCESS_TOKEN"
_WITHIN_S: Final = 30.0
#: Applications of one answer.
_PAGE: Final = 200
_SUFFIX: Final = ".json"


class FolderAnswers:
    """Answers of CDAP from files. `folder`: what is below `/v3`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, *path: str, most: int | None = None) -> Any:
        where = answer_path(*path)
        file = _file(self._folder, path)
        raw = None
        try:
            with file.open("rb") as opened:
                raw = opened.read(LARGEST + 1)
        except (FileNotFoundError, NotADirectoryError):
            return self._list(path)
        except (OSError, ValueError) as exc:
            raise DecodeError(where, f"cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
        return _decode(raw, where)

    def _list(self, path: tuple[str, ...]) -> Any:
        """A list of what the folder has, of namespaces and apps; None of others."""
        if path != ("namespaces",) and not (len(path) == 3 and path[0] == "namespaces" and path[2] == "apps"):
            return None
        folder = _file(self._folder, path).with_suffix("")
        try:
            names = {unquote(each.name.removesuffix(_SUFFIX)) for each in folder.iterdir() if _is_answer(each)}
        except OSError:
            return None
        return [{"name": name} for name in sorted(names)]


class HttpAnswers:
    """Answers of a CDAP over HTTP. `url`: of its router, with or without `/v3`. Redirections are refused: they would
    give the token to another server.
    """

    def __init__(self, url: str, environ: Mapping[str, str] = os.environ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InvalidError("SOURCE", f"{url[:200]} is no URL such as http://cdap:11015")
        base = url.rstrip("/")
        self._base = base if base.endswith("/v3") else f"{base}/v3"
        token = environ.get(TOKEN, "")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._opener: OpenerDirector = build_opener(_NoRedirect)

    def read(self, *path: str, most: int | None = None) -> Any:
        if len(path) == 3 and path[0] == "namespaces" and path[2] == "apps":
            return self._apps(path)
        return self._get(path, {} if most is None else {"limit": most})

    def _apps(self, path: tuple[str, ...]) -> Any:
        """All pages; a CDAP without pages answers the whole list."""
        found: list[Any] = []
        seen: set[str] = set()
        token = ""
        while True:
            answer = self._get(path, {"pageSize": _PAGE, **({"pageToken": token} if token else {})})
            if not isinstance(answer, dict):
                return answer
            page = cast("dict[str, Any]", answer)
            listed = page.get("applications")
            found += cast("list[Any]", listed) if isinstance(listed, list) else []
            token = page.get("nextPageToken") or ""
            if not isinstance(token, str) or not token or token in seen or len(found) > MOST_APPS:
                return found
            seen.add(token)

    def _get(self, path: tuple[str, ...], query: Mapping[str, Any]) -> Any:
        where = answer_path(*path)
        _check(path, where)
        url = f"{self._base}/{'/'.join(quote(each, safe='') for each in path)}"
        request = Request(f"{url}?{urlencode(query)}" if query else url, headers=self._headers)
        try:
            with self._opener.open(request, timeout=_WITHIN_S) as answer:
                raw = answer.read(LARGEST + 1)
        except HTTPError as exc:
            with exc:
                if exc.code == 404:
                    return None
                if exc.code in (401, 407):
                    raise UnavailableError(f"{url} answers {exc.code}: set {TOKEN}") from exc
                raise DecodeError(where, f"the server answers {exc.code}") from exc
        except (URLError, OSError, ValueError, HTTPException) as exc:
            raise UnavailableError(f"{url} cannot be read: {exc}") from exc
        return _decode(raw, where)


class SavingAnswers:
    """The answers of another one, each saved in a folder as `FolderAnswers` reads it."""

    def __init__(self, answers: CdapAnswers, folder: Path) -> None:
        self._answers = answers
        self._folder = folder

    def read(self, *path: str, most: int | None = None) -> Any:
        answer = self._answers.read(*path, most=most)
        if answer is not None:
            file = _file(self._folder, path)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(orjson.dumps(answer))
            except (OSError, ValueError) as exc:
                raise InvalidError(
                    "--save", f"{file} cannot be written: {getattr(exc, 'strerror', None) or exc}"
                ) from exc
        return answer


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _decode(raw: bytes, where: str) -> Any:
    if len(raw) > LARGEST:
        raise DecodeError(where, f"has more than {LARGEST} bytes")
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise DecodeError(where, f"is not valid JSON: {exc}") from exc


def _file(folder: Path, path: tuple[str, ...]) -> Path:
    _check(path, answer_path(*path))
    *above, last = (quote(each, safe="") for each in path)
    return folder.joinpath(*above, f"{last}{_SUFFIX}")


def _check(path: tuple[str, ...], where: str) -> None:
    """Refuses names that are no segment of an address.

    Raises:
        DecodeError: one is.
    """
    for each in path:
        if each in ("", ".", ".."):
            raise DecodeError(where, f"has the name {each!r}, which no address can have")


def _is_answer(path: Path) -> bool:
    return path.is_dir() or path.suffix == _SUFFIX
