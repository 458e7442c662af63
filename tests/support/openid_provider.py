"""A small OpenID provider on a port of this machine: keys, tokens, and the authorization code flow with PKCE."""

from __future__ import annotations

import json
import secrets
import threading
from base64 import b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

NOW = datetime(2026, 3, 1, 6, tzinfo=UTC)
ALGORITHMS = ["RS256", "ES256", "EdDSA", "HS256", "PS256"]


@dataclass
class Client:
    """Who may log people in. `secret`: empty for a public client."""

    id: str
    redirect_uris: tuple[str, ...]
    secret: str = ""


class Provider:
    """An OpenID provider that logs `person` in without asking.

    Attributes:
        down: it answers 500, with a page that has a script.
        reads: how often its keys were read.
        client: who may begin logins; None: no client.
        changed: claims of ID tokens that differ; None leaves one out.
        error: the answer to a login, instead of a code.
        discovery: members of the discovery document that differ.
        seen: forms that the token endpoint got, and how the client proved itself.
    """

    def __init__(self) -> None:
        self.keys: list[Any] = []
        self.down = False
        self.reads = 0
        self.client: Client | None = None
        self.person: dict[str, Any] = {"sub": "ada", "groups": ["ops"]}
        self.changed: dict[str, Any] = {}
        self.error = ""
        self.discovery: dict[str, Any] = {}
        self.seen: list[tuple[dict[str, str], str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._answers())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, kid: str) -> RSAKey:
        key = RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})
        self.keys.append(key)
        return key

    def signed(self, key: Any, *, alg: str = "RS256", now: datetime = NOW, **claims: Any) -> str:
        """A token for `streamsched`, unless the claims say something else."""
        given = {
            "iss": self.url,
            "aud": "streamsched",
            "sub": "ada",
            "groups": ["ops"],
            "iat": now.timestamp(),
            "exp": (now + timedelta(hours=1)).timestamp(),
            **claims,
        }
        header = {"alg": alg, "kid": key.kid}
        return jwt.encode(header, {n: v for n, v in given.items() if v is not None}, key, algorithms=ALGORITHMS)

    def token(self, key: Any, **claims: Any) -> dict[str, str]:
        """The header of a request with such a token."""
        return {"Authorization": f"Bearer {self.signed(key, **claims)}"}

    def documents(self, path: str) -> dict[str, Any]:
        if path.endswith("/keys"):
            self.reads += 1
            return {"keys": [key.as_dict(private=False) for key in self.keys]}
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize?tenant=a",
            "token_endpoint": f"{self.url}/token",
            **self.discovery,
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent."""
        client = self.client
        assert client is not None
        assert query["client_id"] == client.id
        assert query["redirect_uri"] in client.redirect_uris, query
        assert (query["response_type"], query["code_challenge_method"], query["tenant"]) == ("code", "S256", "a")
        assert "openid" in query["scope"].split()
        if self.error:
            given = {"error": self.error, "error_description": "<script>alert(1)</script>", "state": query["state"]}
        else:
            code = secrets.token_urlsafe(16)
            self._codes[code] = query
            given = {"code": code, "state": query["state"], "iss": self.url}
        return f"{query['redirect_uri']}?{urlencode(given)}"

    def exchange(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """The answer of the token endpoint."""
        client = self.client
        assert client is not None
        self.seen.append((form, authorization))
        name, secret = form.get("client_id", ""), form.get("client_secret", "")
        if authorization:
            name, _, secret = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            name, secret = unquote_plus(name), unquote_plus(secret)
        if (name, secret) != (client.id, client.secret):
            return 401, {"error": "invalid_client"}
        asked = self._codes.pop(form["code"], None)
        digest = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        same = asked is not None and form["redirect_uri"] == asked["redirect_uri"]
        if asked is None or not same or digest != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        claims = {"aud": client.id, "nonce": asked["nonce"], **self.person, **self.changed}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.signed(self.keys[0], **claims)}

    def _answers(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/authorize" and not provider.down:
                    self.send_response(302)
                    self.send_header("Location", provider.authorize(dict(parse_qsl(parts.query))))
                    self.end_headers()
                    return
                self._send(200, provider.documents(parts.path))

            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._send(*provider.exchange(dict(parse_qsl(text)), self.headers.get("Authorization", "")))

            def _send(self, status: int, body: dict[str, Any]) -> None:
                self.send_response(500 if provider.down else status)
                self.end_headers()
                self.wfile.write(b"<script>no</script>" if provider.down else json.dumps(body).encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
                pass

        return Answers
