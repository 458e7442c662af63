"""How a setting is written in a variable, by its type, and what it must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError, InvalidError
from streamsched.domain.names import DatasetRef
from streamsched.domain.time.duration import duration_text, parse_duration

PREFIX: Final = "STREAMSCHED_"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def variable(name: str) -> str:
    """The variable of a setting."""
    return PREFIX + name.upper()


def require(holds: bool, name: str, rule: str) -> None:
    """Raises:
    ConfigurationError: it does not hold; the message names the variable.
    """
    if not holds:
        raise ConfigurationError(f"{variable(name)} {rule}")


def check_issuer(issuer: str, audience: str, roles: str) -> None:
    """Checks an OpenID provider, which may be none.

    Raises:
        ConfigurationError: its URL is not secure, or something belongs to it that is not set.
    """
    if issuer:
        parts = urlsplit(issuer)
        secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
        require(secure, "oidc_issuer", "must be https://…, or on loopback http://…")
        require(bool(audience), "oidc_audience", "must be set with an issuer")
        require(bool(roles), "oidc_roles", "must be set with an issuer, such as ops=operator")


def check_hosts(listed: str) -> None:
    """Raises:
    ConfigurationError: these are no comma-separated names of hosts.
    """
    for each in filter(None, (each.strip() for each in listed.split(","))):
        host = each.removeprefix("*.")
        bare = host == "*" or (host.count(":") != 1 and not set(host) & set("/@* "))
        require(bare, "api_allowed_hosts", f"must be comma-separated host names without ports: '{each}'")


def check_locations(listed: str) -> None:
    """Raises:
    ConfigurationError: these are no comma-separated locations of datasets.
    """
    for each in filter(None, (each.strip() for each in listed.split(","))):
        location, _, dataset = each.rpartition("=")
        try:
            DatasetRef.parse(dataset.strip())
        except InvalidError as exc:
            raise ConfigurationError(f"{variable('lineage_datasets')}: '{each}': {exc.reason}") from exc
        require(bool(location.strip()), "lineage_datasets", f"must be location=dataset,location=dataset: '{each}'")


def _duration(text: str) -> timedelta:
    try:
        return timedelta(0) if text == "0" else parse_duration(text)
    except InvalidDefinitionError as exc:
        raise ValueError(exc.reason) from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a whole number") from None


def _switch(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(f"'{text}' is not `true` or `false`")
    return text.lower() == "true"


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "str": str,
    "int": _whole,
    "bool": _switch,
    "Path": Path,
    "timedelta": _duration,
}


def folder_of(text: str) -> Path | None:
    """The folder that an absolute path or a URL `file:///…` names; None when it is empty.

    Raises:
        InvalidDefinitionError: it is neither.
    """
    if not text:
        return None
    parts = urlsplit(text)
    path = Path(unquote(parts.path) if "://" in text else text)
    if "://" in text and (parts.scheme != "file" or parts.netloc not in ("", "localhost")):
        raise InvalidDefinitionError("$", f"must be a folder or file:///…, not '{text}'")
    if not path.is_absolute() or len(path.parts) < 2:
        raise InvalidDefinitionError("$", f"must be the absolute path of a folder, not '{text}'")
    return path


def read_value(kind: str, text: str) -> object:
    """The value of a setting of this type.

    Raises:
        ValueError: the text is none; the message says why.
    """
    return _READERS[kind](text)


def written_value(value: object) -> str:
    """What `read_value` reads as an equal value."""
    match value:
        case timedelta():
            return duration_text(value)
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def url_here(host: str, port: int) -> str:
    """The URL at which a client on the same machine reaches a server bound to this address."""
    if host in {"0.0.0.0", "::", ""}:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
