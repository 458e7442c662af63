"""How a setting is declared, how its text is read, and what its text must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError, InvalidError
from streamsched.domain.time.duration import duration_text, parse_duration

PREFIX: Final = "STREAMSCHED_"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

#: Reads a text. It raises ValueError or InvalidError for another one.
Reader = Callable[[str], Any]


class SettingGroup:
    """Settings about one subject, as a frozen dataclass: fields with a default, or a `setting`.

    Attributes:
        VARIABLES: what the names of their variables begin with after `STREAMSCHED_`, unless a field names its own.
    """

    VARIABLES: ClassVar[str] = ""


def setting(default: Any, read: Reader | None = None, *, variable: str = "", secret: bool = False) -> Any:
    """A field of a setting.

    Args:
        default: the value, or a text that is read.
        read: reads its text; default: by the type of the field.
        variable: its name without `STREAMSCHED_`, in lower case; default: that of the group and the field.
        secret: whether it is never printed.
    """
    metadata = {"read": read, "variable": variable, "default": default}
    if read is not None and isinstance(default, str):
        return field(default_factory=lambda: read(default), repr=not secret, metadata=metadata)
    return field(default=default, repr=not secret, metadata=metadata)


class Variable(NamedTuple):
    """A setting and the variable it is read from.

    Attributes:
        name: without `STREAMSCHED_`, in lower case.
        group: the field that holds the settings it is of; empty: none.
        settings: the dataclass that it is a field of.
    """

    name: str
    group: str
    settings: type
    field: Field[Any]

    @property
    def default(self) -> str:
        """The text of its default."""
        return written_value(self.field.metadata.get("default", self.field.default))

    def read(self, text: str) -> Any:
        """The value.

        Raises:
            ConfigurationError: the text is none; the message names the variable.
        """
        read = self.field.metadata.get("read") or _READERS[str(self.field.type)]
        try:
            return read(text)
        except InvalidDefinitionError as exc:
            raise ConfigurationError(f"{variable(self.name)} {exc.reason}") from exc
        except InvalidError as exc:
            raise ConfigurationError(f"{variable(self.name)}: {exc.reason}") from exc
        except ValueError as exc:
            raise ConfigurationError(f"{variable(self.name)}: {exc}") from exc


def variables_of(settings: type, group: str = "") -> Iterator[Variable]:
    """The variables of a dataclass of settings, and after them those of its groups: fields, and what the function
    `groups` in the metadata of a field returns by name.
    """
    before = getattr(settings, "VARIABLES", "")
    groups: list[tuple[str, type]] = []
    for each in fields(settings):
        factory = each.default_factory
        if isinstance(factory, type) and issubclass(factory, SettingGroup):
            groups.append((each.name, factory))
        elif made := each.metadata.get("groups"):
            groups += made().items()
        elif each.init and each.compare:
            yield Variable(each.metadata.get("variable") or before + each.name, group, settings, each)
    for name, kind in groups:
        yield from variables_of(kind, name)


def variable(name: str) -> str:
    """The variable of a setting."""
    return PREFIX + name.upper()


def require(holds: bool, name: str, rule: str) -> None:
    """Raises:
    ConfigurationError: it does not hold; the message names the variable.
    """
    if not holds:
        raise ConfigurationError(f"{variable(name)} {rule}")


def rule_reader(read: Reader, holds: Callable[[Any], bool], rule: str) -> Reader:
    """Reads a value, which must be as the rule says."""

    def read_and_check(text: str) -> Any:
        value = read(text)
        if not holds(value):
            raise InvalidDefinitionError("$", f"must be {rule}")
        return value

    return read_and_check


def number(least: int, most: int | None = None, *, zero: str = "", unit: str = "") -> Reader:
    """Reads a whole number within bounds. `zero`: what 0 means."""
    low = f"{least} ({zero})" if zero else f"{least}"
    rule = f"at least {low}{unit}" if most is None else f"from {low} to {most}{unit}"
    return rule_reader(_whole, lambda value: least <= value and (most is None or value <= most), rule)


def port(zero: str) -> Reader:
    """Reads the number of a port. `zero`: what 0 means."""
    return number(0, 65535, zero=zero)


def positive_duration() -> Reader:
    """Reads a duration longer than 0."""
    return rule_reader(_duration, timedelta(0).__lt__, "longer than 0")


def one_of(*choices: str) -> Reader:
    """Reads one of these texts."""
    return rule_reader(str, choices.__contains__, f"one of {', '.join(choices)}")


def url(like: str, *schemes: str) -> Reader:
    """Reads a URL of one of these schemes, or none of an empty text; without schemes, of any. `like`: such a URL."""
    begins = tuple(f"{scheme}://" for scheme in schemes)
    return rule_reader(str, lambda text: not text or (text.startswith(begins) if begins else "://" in text), like)


def pairs(text: str, like: str) -> dict[str, str]:
    """Reads comma-separated `name=value`; a value may have further `=`. `like`: such a text.

    Raises:
        InvalidDefinitionError: it is none.
    """
    found: dict[str, str] = {}
    for each in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = (part.strip() for part in each.partition("="))
        if not name or not value:
            raise InvalidDefinitionError("$", f"must be {like}")
        found[name] = value
    return found


def hosts(text: str) -> tuple[str, ...]:
    """Reads comma-separated names of hosts; `*` is any, `*.example.org` any below it."""
    listed = tuple(filter(None, (each.strip() for each in text.split(","))))
    for each in listed:
        host = each.removeprefix("*.")
        if host != "*" and (host.count(":") == 1 or set(host) & set("/@* ")):
            raise InvalidDefinitionError("$", f"must be comma-separated host names without ports: '{each}'")
    return listed


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


_READERS: Final[Mapping[str, Reader]] = {
    "str": str,
    "int": _whole,
    "bool": _switch,
    "Path": Path,
    "timedelta": _duration,
}


def written_value(value: object) -> str:
    """The text that is read as this value."""
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
