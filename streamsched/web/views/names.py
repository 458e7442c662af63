"""Names and links to their pages. Pure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from streamsched.domain.errors import InvalidError
from streamsched.domain.names import DEFAULT_NAMESPACE, AppRef, ProgramRef, ScheduleRef

_R = TypeVar("_R", ScheduleRef, ProgramRef)
_T = TypeVar("_T")
_PREFIX: Final = f"{DEFAULT_NAMESPACE}."
#: Nothing in it is quoted in an address.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]*")
_WITHIN: Final = re.compile(rf"(?<![\w.$/-]){DEFAULT_NAMESPACE}\.(?=[\w$-])")


def short_name(name: object) -> str:
    """An id without the default namespace. The id of an app named `default` stays."""
    text = str(name)
    rest = text.removeprefix(_PREFIX)
    return text if rest.startswith(_PREFIX) else rest


def shorten(sentence: str) -> str:
    """A sentence whose names have no default namespace."""
    return _WITHIN.sub("", sentence)


def clip(text: object, most: int) -> str:
    """A text with at most so many characters. Not for ids of jobs and runs, which are never cut."""
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[: most - 1]}…"


def capitalise(sentence: str) -> str:
    """A sentence with a capital first letter; without a final period."""
    return sentence[:1].upper() + sentence[1:].rstrip(".")


def quote_name(name: object) -> str:
    """A name as a part of an address. Most names are plain; a graph has thousands."""
    text = str(name)
    return text if _PLAIN.fullmatch(text) else quote(text, safe="")


def action_words(action: str) -> str:
    """`job.hold_ordered` as `job hold ordered`."""
    return action.replace(".", " ").replace("_", " ")


def schedule_href(schedule: object) -> str:
    return f"/ui/schedules/{quote_name(schedule)}"


def job_href(job: object) -> str:
    return f"/ui/jobs/{quote_name(job)}"


def run_href(run: object) -> str:
    return f"/ui/runs/{quote_name(run)}"


def dataset_href(dataset: object) -> str:
    return f"/ui/datasets/{quote_name(dataset)}"


def backfill_href(backfill: object) -> str:
    return f"/ui/backfills/{quote_name(backfill)}"


def queue_href(queue: object) -> str:
    return f"/ui/queues/{quote_name(queue)}"


def expectation_href(expectation: object) -> str:
    return f"/ui/expectations/{quote_name(expectation)}"


def webhook_href(namespace: str, name: str) -> str:
    """Its parts are segments of their own, unlike those of other names, because the API has them so."""
    return f"/ui/webhooks/{quote_name(namespace)}/{quote_name(name)}"


def app_graph_href(app: AppRef) -> str:
    """The page of the tasks of an app."""
    return f"/ui/graphs/{quote_name(app.namespace)}/{quote_name(app.app)}"


def event_href(event: str, source: str = "", at: str = "") -> str:
    """The page of an event; `at`: its position in the log, if known."""
    given = [("id", event), ("source", source), ("at", at)]
    return f"/ui/event?{urlencode([(name, value) for name, value in given if value])}"


def leaf_words(contribution: str, leaves: Mapping[str, str]) -> str:
    """A contribution (`domain.schedules.provenance.contributions_of`) with the words of its leaf instead of its id."""
    for leaf, words in leaves.items():
        if contribution.startswith(f"{leaf}: "):
            return f"{words}: {contribution.removeprefix(f'{leaf}: ')}"
    return contribution


def add_links(sentence: str, hrefs: Mapping[str, str]) -> Markup:
    """A sentence with links where these names are in it; a name within a longer one is not linked."""
    if not hrefs:
        return escape(shorten(sentence))
    names = "|".join(re.escape(name) for name in sorted(hrefs, key=len, reverse=True))
    parts: list[Markup] = []
    at = 0
    for found in re.finditer(rf"(?<![\w.-])({names})(?![\w-]|\.\w)", sentence):
        parts.append(escape(shorten(sentence[at : found.start()])))
        parts.append(Markup('<a class="mono" href="{}">{}</a>').format(hrefs[found[1]], short_name(found[1])))
        at = found.end()
    return Markup("").join([*parts, escape(shorten(sentence[at:]))])


class NameFilter(NamedTuple, Generic[_R]):
    """The schedule or program by which a list is filtered; None when its field is empty, or holds no name, which
    `problem` then says.
    """

    ref: _R | None = None
    problem: str = ""

    async def apply(self, read: Callable[[_R | None], Awaitable[Sequence[_T]]]) -> Sequence[_T]:
        """What `read` finds for it; nothing for what is no name."""
        return [] if self.problem else await read(self.ref)


def read_name(text: str, parse: Callable[[str], _R], namespace: str | None) -> NameFilter[_R]:
    """Reads `namespace.app.name`, or `app.name` of the page's namespace, by default of `default`."""
    if not text:
        return NameFilter()
    whole = f"{namespace or DEFAULT_NAMESPACE}.{text}" if text.count(".") == 1 else text
    try:
        return NameFilter(parse(whole))
    except InvalidError:
        return NameFilter(problem=f"“{text[:100]}” is no name: write app.name or namespace.app.name.")
