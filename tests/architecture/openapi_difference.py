"""What differs between two OpenAPI documents of the API: routes, fields, codes, examples, descriptions.

    python -m tests.architecture.openapi_difference before.json [after.json]

Without a second file, the document of the working tree; with `--print` that one is printed, to be kept. Equal
differences are printed once with their number and the first place; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.described_answers import api_document

#: Places of a document that have no name are known by these members.
_NAMES = ("in", "name")
_REQUIRED = ("required",)
_SHOWN = 100


def differences(before: object, after: object, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each place at which two documents differ, with what was there and what is. A list of things with names, such as
    parameters, is compared by them, another in its order.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            if name not in after or name not in before:
                text = f"removed {_text(before[name])}" if name in before else f"added {_text(after[name])}"
                yield (*place, str(name)), text
            else:
                yield from differences(before[name], after[name], (*place, str(name)))
    elif (known := _by_name(before)) is not None and (others := _by_name(after)) is not None:
        yield from differences(known, others, place)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after) and place[-1:] != _REQUIRED:
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, (*place, str(index)))
    elif before != after and not (place[-1:] == _REQUIRED and _same_names(before, after)):
        yield place, f"{_text(before)} → {_text(after)}"


def summary(found: Iterator[tuple[tuple[str, ...], str]]) -> Iterator[str]:
    """Equal differences of the same member in one line."""
    alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for place, text in found:
        alike[place[-1], text].append(" / ".join(place))
    for (_, text), places in alike.items():
        yield f"{places[0]}{f' (and {len(places) - 1} more)' if len(places) > 1 else ''}: {text}"


def _by_name(value: object) -> Mapping[str, Any] | None:
    if not isinstance(value, list) or not value or not all(isinstance(each, Mapping) for each in value):
        return None
    if not all(name in each for each in value for name in _NAMES):
        return None
    return {" ".join(each[name] for name in _NAMES): each for each in value}


def _same_names(before: object, after: object) -> bool:
    """Whether two lists of required members, whose order says nothing, are the same."""
    return isinstance(before, list) and isinstance(after, list) and sorted(before) == sorted(after)


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--print", action="store_true", help="print the document of the working tree")
    given = parser.parse_args(arguments)
    if given.print or given.before is None:
        sys.stdout.write(json.dumps(api_document(), indent=1, ensure_ascii=False) + "\n")
        return 0
    after = json.loads(given.after.read_text()) if given.after else json.loads(json.dumps(api_document()))
    lines = list(summary(differences(json.loads(given.before.read_text()), after)))
    sys.stdout.write("\n".join(lines or ["no difference"]) + "\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
