"""Words that were replaced by the field's standard terms stay away from the product's code and documents.

`WORDS` are searched in every text, also as a part of an identifier (`_docket`, `PostgresDocket`). `NAMES` have ordinary
uses in a sentence, so they are forbidden as identifiers and names of modules only. `ALLOWED` lists the remaining uses.
In tests both are forbidden as identifiers and names of modules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.architecture.test_modules import trees

ROOT = Path(__file__).parents[2]

#: Word → what is written instead.
WORDS: Final[Mapping[str, str]] = {
    "docket": "decision input",
    "sitting": "decision batch",
    "sittings": "decision batches",
    "ruling": "decision",
    "rulings": "decisions",
    "laid before": "given to",
    "byhand": "manual_runs",
    "joiners": "coalesced",
    "followup": "run monitor",
    "crowd": "run batch",
    "bell": "notifier",
    "pulse": "broker health",
    "vitals": "health",
    "telltale": "status reporter",
    "tenure": "shard runner",
    "tenures": "shard runners",
    "condemned": "poison record",
    "memo": "decode cache",
    "edition": "state format",
    "ledger": "verdict collector",
    "outlets": "unkeyed partitions",
    "kin": "compatible id",
    "audience": "listeners",
    "taker": "consuming job",
    "shelf": "run files",
    "tidying": "log cleanup",
    "sole": "exclusive, only",
    "portions": "batches",
    "attendance": "run_forever",
    "put down": "cancel",
    "town": "cluster",
    "crew": "processes",
    "misfortune": "fault",
    "dice": "random",
    "told": "given, reported, passed",
    "telling": "reporting",
    "whoever": "the caller, the process that …",
    "nobody": "no process, no user, none",
    "somebody": "another process, a user",
    "looked at": "checked, read",
    "gone through": "processed",
    "stands in line": "waits",
    "is heard": "arrives",
    "minds the": "reads the",
    "lets go": "releases",
    "for ever": "forever",
}

#: Identifiers and names of modules.
NAMES: Final[Mapping[str, str]] = {
    "account": "event_report",
    "advice": "plugins",
    "arrivals": "event_list",
    "attend": "run_forever",
    "book": "store",
    "breaks": "failure_streaks",
    "caution": "poison_search",
    "duty": "run_worker",
    "express": "fast_path",
    "give_up": "fail_unstarted",
    "ground": "reason",
    "hands": "inline_executor",
    "lose": "mark_lost",
    "opinion": "verdict",
    "receipt": "outbox_ack",
    "receipts": "outbox_acks",
    "ring": "subscription",
    "roll": "event_table",
    "signs": "stats",
    "standing": "current_schedule",
    "trail": "event_trace",
}

#: Classes.
CLASSES: Final = frozenset(
    """Account Advice Arrivals Background Case Caution Draft FollowUpBook Hands Letters Line Meter PauseBook PutAway
    Quick Receipt Receipts Ring Roll RunBook RunCrowd Shared Standing Trail Watch""".split()  # noqa: SIM905
)


class Use(NamedTuple):
    """A remaining use of a word: in files below `path`, on lines that match `line`."""

    word: str
    path: str
    line: str
    why: str


ALLOWED: Final = (
    Use("told", "streamsched/store/server/revisions.py", r"'told'", "column of a database before release 0.1.0"),
    Use("advice", "streamsched/admin", r"advice", "of a check of `streamsched doctor`"),
    Use("advice", "streamsched/cli/commands/admin.py", r"advice", "of a check of `streamsched doctor`"),
    Use("told", "streamsched/cli/commands/admin.py", r'"told"', "member of the JSON that `resync` prints"),
    Use("outlets", "streamsched/codec/records/layout.py", r"outlets", "member of the stored layout"),
    *(
        Use("audience", path, r"audience", "a claim of tokens of an OpenID provider")
        for path in (
            "docs/how-to/give-access.md",
            "docs/reference/settings.md",
            "streamsched/access/code_flow.py",
            "streamsched/access_services.py",
            "streamsched/adr/0124-tokens-of-an-openid-provider.md",
            "streamsched/config.py",
            "streamsched/setting_values.py",
            "streamsched/domain/access/claims.py",
        )
    ),
    *(Use(word, "docs/reference/seeds.md", r"^\d+\. `tests/", "names of tests") for word in ("is heard", "looked at")),
    Use("outlets", "docs/how-to/migrate.md", r"outlets", "Airflow's word"),
    Use("outlets", "streamsched/codec/airflow", r"outlets", "Airflow's word"),
)


def texts() -> Iterator[Path]:
    """Code, queries and documents. Applied migrations stay as they are."""
    for folder in "streamsched", "brokers", "docs":
        for suffix in "py", "sql", "md", "yaml":
            yield from (ROOT / folder).rglob(f"*.{suffix}")
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "migrations" / "README.md")


@cache
def read() -> Mapping[str, Sequence[str]]:
    """The lines of each text, by path."""
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8").splitlines() for path in sorted(texts())}


def pattern(word: str) -> re.Pattern[str]:
    """The word alone, between underscores, or capitalized inside a camel-case name."""
    spaced = word.replace(" ", "[ _]")
    return re.compile(rf"(?<![A-Za-z]){spaced}(?![A-Za-z])|{spaced.capitalize()}(?![a-z])|\b{spaced.upper()}\b")


def allowed(word: str, name: str, line: str) -> bool:
    return any(use.word == word and name.startswith(use.path) and re.search(use.line, line) for use in ALLOWED)


def test_replaced_words_stay_away() -> None:
    searched = {word: pattern(word) for word in WORDS}
    found: list[str] = []
    for name, lines in read().items():
        whole = "\n".join(lines).lower().replace("_", " ")
        for word in (word for word in WORDS if word in whole):  # a hundred times as fast as the patterns
            found += (
                f"{name}:{number}: {line.strip()} (write: {WORDS[word]})"
                for number, line in enumerate(lines, 1)
                if searched[word].search(line) and not allowed(word, name, line)
            )

    assert not found, "\n".join(found)


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What a module names itself: functions, parameters, variables, attributes of `self`, aliases of imports."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.alias(asname=str() as name):
                yield name, node.lineno


def test_a_replaced_name_names_nothing() -> None:
    found = [f"{name}: a module" for name in trees() if Path(name).stem in {*NAMES, *WORDS}]
    for name, tree in trees().items():
        for identifier, line in identifiers(tree):
            word = identifier.lstrip("_")
            if word in NAMES and not allowed(word, name, read()[name][line - 1]):
                found.append(f"{name}:{line}: {identifier} (write: {NAMES[word]})")

    assert not found, "\n".join(found)


def test_a_replaced_name_names_nothing_in_a_test() -> None:
    found: list[str] = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if path.stem in {*NAMES, *WORDS}:
            found.append(f"{name}: a module")
        for identifier, line in identifiers(ast.parse(path.read_text("utf-8"))):
            word = identifier.lstrip("_")
            if word in NAMES or word in WORDS:
                found.append(f"{name}:{line}: {identifier} (write: {NAMES.get(word) or WORDS[word]})")

    assert not found, "\n".join(found)


def test_a_replaced_class_is_gone() -> None:
    found = [
        f"{name}:{node.lineno}: {node.name}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.lstrip("_") in CLASSES
    ]

    assert not found, "\n".join(found)
