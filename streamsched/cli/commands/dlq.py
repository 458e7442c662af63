"""`streamsched dlq`: dead letters, records that could not be processed. Uses the API, or reads the log directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streamsched.cli.commands.admin import DirectOption, administer, through_api
from streamsched.cli.group import new_group
from streamsched.cli.naming import field_path
from streamsched.cli.output import Format, FormatOption, print_answer, print_record, print_structured
from streamsched.cli.resources.listing import Listing, print_items
from streamsched.cli.resources.paging import AfterOption, LimitOption, fetch_list, print_more
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import InvalidError

if TYPE_CHECKING:
    from streamsched.admin.installation import Installation

_LETTERS: Final = Listing(
    "letters",
    (
        Column("id", "letter", ColumnKind.ID),
        Column("at", kind=ColumnKind.TIME),
        Column("topic", optional=1),
        Column("path", kind=ColumnKind.TEXT, optional=2),
        Column("reason", kind=ColumnKind.REASON),
    ),
    "no dead letters",
    lambda letter: {**letter, "path": field_path(letter.get("path") or "") or None},
)
_PATH = "/v1/admin/dead-letters"

Letter = Annotated[str, typer.Argument(metavar="LETTER", help="Id of a dead letter, PARTITION/OFFSET.")]


def commands() -> typer.Typer:
    """The commands of `streamsched dlq`."""
    app = new_group("Lists, replays and archives dead letters: records that could not be processed.")
    app.command("list")(list_letters)
    app.command("show")(show)
    app.command("replay")(replay)
    app.command("purge")(purge)
    return app


def list_letters(
    *,
    after: AfterOption = "",
    limit: LimitOption = None,
    direct: DirectOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Lists the dead letters that are not archived, newest first."""
    from streamsched.admin import dead_letters as admin
    from streamsched.codec.events.native import to_plain

    async def read(at: Installation) -> dict[str, Any]:
        page = admin.letters_page(at.broker, at.archived_letters, limit=limit or _LETTERS.page, after=after)
        return to_plain(await page)

    if through_api(url, direct=direct):
        letters, more = fetch_list(_PATH, _LETTERS.member, url=url, output=output, after=after, limit=limit)
    else:
        found = administer(read)
        letters, more = found["letters"], found.get("next", "")
    print_items(_LETTERS, letters, output)
    if not output.is_structured:
        print_more(more)


def show(
    letter: Letter, *, direct: DirectOption = False, output: FormatOption = Format.JSON, url: UrlOption = ""
) -> None:
    """Shows a dead letter with its record."""
    from streamsched.admin.dead_letters import LETTER
    from streamsched.admin.dead_letters import dead_letter as read
    from streamsched.codec.events.native import to_plain

    if through_api(url, direct=direct):
        found = ask("GET", f"{_PATH}/{_check_letter(letter)}", url=url)
    else:
        found = to_plain(LETTER.write(administer(lambda at: read(at.broker, letter))))
    print_answer(found, output, print_record)


def replay(
    letter_ids: Annotated[list[str], typer.Argument(metavar="LETTER", help="Ids of dead letters, PARTITION/OFFSET.")],
    *,
    direct: DirectOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Appends the records of dead letters to their original topics again.

    Events that were accepted in the meantime are duplicates and do not count again.
    """
    from streamsched.admin import dead_letters as admin

    async def run(at: Installation) -> list[tuple[str, str]]:
        letters = [await admin.dead_letter(at.broker, name) for name in letter_ids]
        return [(one.id, "/".join(map(str, await admin.replay(at.broker, one)))) for one in letters]

    if through_api(url, direct=direct):
        paths = [f"{_PATH}/{_check_letter(name)}" for name in letter_ids]
        for path in paths:  # when one does not exist, none is replayed
            ask("GET", path, url=url)
        replayed = [ask("POST", f"{path}/replay", url=url) for path in paths]
        sent = [(each["id"], f"{each['topic']}/{each['partition']}") for each in replayed]
    else:
        sent = administer(run)
    letters = [{"id": name, "sentTo": target} for name, target in sent]
    if not print_structured(letters, output):
        for each in letters:
            typer.echo(f"{each['id']} is sent again to {each['sentTo']}")


def purge(*, direct: DirectOption = False, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Archives all dead letters: `dlq list` omits them, and the log deletes them after its retention time."""
    from streamsched.admin import dead_letters as admin

    if through_api(url, direct=direct):
        found = ask("POST", f"{_PATH}/purge", url=url)
    else:
        found = {"purged": administer(lambda at: admin.purge(at.broker, at.archived_letters))}
    print_answer(found, output, lambda found: f"{found['purged']} letters are archived", names=lambda _: ())


def _check_letter(letter: str) -> str:
    """The id of a letter, which has the form of a part of a URL path.

    Raises:
        InvalidError: it is not of the form partition/offset.
    """
    partition, slash, offset = letter.partition("/")
    if not (slash and partition.isdecimal() and offset.isdecimal()):
        raise InvalidError("$", f"'{letter}' is not the id of a dead letter: use PARTITION/OFFSET from `dlq list`")
    return letter
