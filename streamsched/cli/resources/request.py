"""Commands that send one request and print its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamsched.cli.output import Format, FormatOption, names_of, print_answer, print_record, print_table
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.shell.signature import wrap_command
from streamsched.cli.table import Column


def _answer_itself(found: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return found


@dataclass(frozen=True, slots=True)
class Table:
    """How an answer is printed as a table: its columns, the sentence without rows, and the rows of the answer."""

    columns: Sequence[Column | str]
    empty: str
    rows: Callable[[Any], Iterable[Mapping[str, Any]]] = _answer_itself


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """A request of a command.

    Attributes:
        params: those that are empty are not sent.
        show: prints the answer for people, or says how.
        names: of what the answer is about, as other commands take them.
    """

    method: str = "GET"
    path: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    body: object = None
    show: Callable[[Any], object] | Table = print_record
    names: Callable[[Any], Iterable[str]] = names_of


def request_command(make: Callable[..., CommandRequest], *, ask: Callable[..., Any] = ask) -> Callable[..., None]:
    """The command that sends what the function makes of its parameters. It has `--output` and `--url` besides."""

    def run(*arguments: Any, output: Format = Format.TABLE, url: str = "", **options: Any) -> None:
        request = make(*arguments, **options)
        found = ask(request.method, request.path, url=url, params=request.params, body=request.body)
        print_answer(found, output, shown_by(request.show, wide=output.is_wide), names=request.names)

    return wrap_command(make, run, {"output": (FormatOption, Format.TABLE), "url": (UrlOption, "")})


def shown_by(show: Callable[[Any], object] | Table, *, wide: bool) -> Callable[[Any], object]:
    """What prints an answer; a table that is `wide` has all columns, on unbroken lines."""
    if not isinstance(show, Table):
        return show
    return lambda found: print_table(show.rows(found), show.columns, wide=wide, empty=show.empty)


def action_request(
    path: str,
    show: Callable[[Any], object],
    *,
    reason: str = "",
    names: Callable[[Any], Iterable[str]] = names_of,
    **members: Any,
) -> CommandRequest:
    """The request of an action at a path. Its body has the `members`, and the reason if one was given."""
    body = {**members, "reason": reason} if reason else members
    return CommandRequest(method="POST", path=path, body=body, show=show, names=names)
