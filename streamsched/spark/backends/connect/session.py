"""Sessions of runs on a Spark Connect server: one for each run, with an id made from the run's.

So every process can end exactly that session: its queries are interrupted, and the server refuses its id from then on.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit
from uuid import UUID, uuid5

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.domain.jobs.run import file_name

USER: Final = "streamsched"
_RUNS: Final = UUID("6f0c3a52-3f0e-4a53-9a5e-1f6f0b1a7c11")
_RELEASE: Final = "/spark.connect.SparkConnectService/ReleaseSession"
_TIMEOUT_S: Final = 10.0


def session_id(run: str) -> str:
    """The id of the run's session."""
    return str(uuid5(_RUNS, file_name(run)))


def operation_tag(run: str) -> str:
    """How the server begins the tag that it gives to the jobs of each operation of the run's session."""
    return f"SparkConnect_OperationTag_User_{USER}_Session_{session_id(run)}_Operation_"


def remote_url(server: str, run: str) -> str:
    """The value of `SPARK_REMOTE` for the run."""
    base = server.rstrip("/;")
    separator = ";" if "/;" in base else "/;"
    return f"{base}{separator}user_id={USER};session_id={session_id(run)}"


def check_server(server: str) -> None:
    """Raises:
    ConfigurationError: it is no URL of a Spark Connect server.
    """
    parts = urlsplit(server)
    if parts.scheme != "sc" or not parts.hostname or "session_id=" in server or "user_id=" in server:
        raise ConfigurationError(f"'{server}' must be sc://host:port, without user_id and session_id")


def release(server: str, token: str, session: str) -> None:
    """Ends the session and interrupts its queries; one that does not exist is refused from now on. Idempotent.

    Raises:
        UnavailableError: the server does not answer.
        ConfigurationError: gRPC is not installed.
    """
    try:
        import grpc  # noqa: PLC0415 - only where a server is asked
    except ImportError as exc:
        raise ConfigurationError("Spark Connect needs gRPC: pip install 'streamsched[spark]'") from exc
    parts = urlsplit(server)
    pairs = (each.partition("=") for each in parts.path.lstrip("/;").split(";") if each)
    options = {name: value for name, _, value in pairs}
    target, token = f"{parts.hostname}:{parts.port or 15002}", token or options.get("token", "")
    if options.get("use_ssl", "").lower() == "true" or (token and parts.hostname != "localhost"):
        credentials = grpc.ssl_channel_credentials()
    else:
        credentials = grpc.local_channel_credentials() if token else None
    if credentials is not None and token:
        credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(token))
    channel = grpc.insecure_channel(target) if credentials is None else grpc.secure_channel(target, credentials)
    with channel:
        call = channel.unary_unary(_RELEASE, request_serializer=bytes, response_deserializer=bytes)
        try:
            call(_field(1, session.encode()) + _field(2, _field(1, USER.encode())), timeout=_TIMEOUT_S)
        except grpc.RpcError as exc:
            said = exc.details() if isinstance(exc, grpc.Call) else str(exc)
            raise UnavailableError(f"Spark Connect at {server.partition(';')[0]}: {said}") from exc


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protobuf message, shorter than 128 bytes."""
    assert len(content) < 128
    return bytes((number << 3 | 2, len(content))) + content
