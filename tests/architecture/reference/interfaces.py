"""Pages made from the command tree, the OpenAPI document, the settings and the table of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import typer
from typer.core import TyperGroup

from streamsched.api.routing.rules import Scope
from streamsched.cli.main import make_app
from streamsched.config import Settings
from streamsched.setting_values import Variable, variable, variables_of
from streamsched.telemetry.metric_table import PREFIX, TABLE
from streamsched.telemetry.traces.span_table import ATTRIBUTES, SPANS
from streamsched.web.app import page_rules
from tests.architecture.reference.markdown import described, fenced, section, table
from tests.support.described_answers import api_document

#: Routes of CDAP's dialect; `cdap.md` describes them.
_CDAP = "/v3/"


def cli_page() -> str:
    lines = [
        "# Commands",
        "",
        "Made from the commands of `streamsched/cli/`; `make docs` writes it again. `streamsched COMMAND --help`",
        "prints the same text.",
        "",
        "Exit codes: 0 done, 1 failed, 2 wrong input or settings, 3 not found, 4 conflict, 5 the server, the",
        "database or the log cannot be reached, 6 `diff` found a difference, 7 something would be lost and `--yes`",
        "was not given.",
        "",
    ]
    for name, command in _commands(typer.main.get_command(make_app())):
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        usage = " ".join(["streamsched", name, *(_positional(each) for each in arguments)])
        lines += [f"## `{name}`", "", *fenced("text", usage), "", *described(command.help)]
        rows = [(_spelling(each), each.help or "", _default(each)) for each in command.params if not _hidden(each)]
        if rows:
            lines += [*table(("option", "meaning", "default"), rows), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        for word, each in command.commands.items():
            yield from _commands(each, f"{name} {word}".strip())
    else:
        yield name, command


def _hidden(parameter: Any) -> bool:
    return bool(getattr(parameter, "hidden", False)) or "--help" in parameter.opts


def _positional(parameter: Any) -> str:
    shown = str(parameter.metavar or parameter.name).strip("[]").upper()
    return shown if parameter.required else f"[{shown}]"


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_positional(parameter)}`"
    return ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    variables = parameter.envvar if isinstance(parameter.envvar, list | tuple) else filter(None, [parameter.envvar])
    shown = [f"`{each}`" for each in variables]
    default = parameter.opts[0] if parameter.default is True else parameter.default
    if default not in (None, False, "", ()) and not callable(default):
        shown.append(f"`{default}`")
    return ", ".join(shown)


def http_page() -> str:
    document = api_document()
    lines = [
        "# HTTP",
        "",
        "Made from the API's OpenAPI document; `make docs` writes it again. A server serves that document as",
        "`/v1/openapi.json`, and a page for people as `/docs`. Bodies and answers are JSON. Lists come in pages:",
        "`limit` (100, at most 1000) items, and `next` in the answer is the `after` of the following page.",
        "A single app, schedule, profile or pool has an entity tag: `If-None-Match` with the `ETag` of the last answer",
        "gives 304 while nothing in it has changed; PUT and DELETE with `If-Match` give 412, and change nothing, when",
        "its definition, settings or state are no longer those that were read. What it counts makes no difference to",
        "`If-Match`.",
        "CDAP's dialect under `/v3` has [its own page](cdap.md). Requests that are refused for their host, origin or",
        "content type: [security](../explanation/security.md).",
        "",
    ]
    for path, operations in document["paths"].items():
        if path.startswith(_CDAP):
            continue
        for method, operation in operations.items():
            lines += [f"## {method.upper()} {path}", "", *described(operation.get("description"))]
            rows = [
                (
                    f"`{each['name']}`",
                    each["in"],
                    each.get("description") or "",
                    _shape(each.get("schema", {}), document),
                )
                for each in operation.get("parameters", [])
                if each["in"] != "path"
            ]
            if rows:
                lines += [*table(("parameter", "in", "meaning", "value"), rows), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def pages_page() -> str:
    lines = [
        "# Pages",
        "",
        "Made from the pages of `streamsched/web/pages/`; `make docs` writes it again. The API serves them below",
        "`/ui`; how they are used: [use the pages](../how-to/use-the-page.md). An address keeps its filters, so it can",
        "be shared.",
        "`where`: the role must be in the namespace of what the address names, in a namespace that is listed, in the",
        "one that the form names, or in the whole installation. `POST` is a form of a page.",
        "",
    ]
    where = {
        Scope.PATH: "its namespace",
        Scope.QUERY: "a listed namespace",
        Scope.BODY: "the named namespace",
        Scope.INSTALLATION: "the installation",
        Scope.NONE: "anywhere",
    }
    rows = [
        (f"`{name.split(' ')[1]}`", name.split(" ")[0], str(rule.permission.value), where[rule.scope])
        for name, rule in page_rules().items()
    ]
    lines += table(("address", "method", "permission", "where"), rows)
    return "\n".join(lines) + "\n"


def _shape(schema: dict[str, Any], document: dict[str, Any]) -> str:
    """The types or values of a parameter, and its default."""
    kinds = [_kind(each, document) for each in schema.get("anyOf") or schema.get("allOf") or [schema]]
    shown = " or ".join(kind for kind in kinds if kind and kind != "null")
    default = schema.get("default")
    return shown if default in (None, "", False) else f"{shown} (default {default})"


def _kind(schema: dict[str, Any], document: dict[str, Any]) -> str:
    if name := schema.get("$ref"):
        schema = document["components"]["schemas"][name.rpartition("/")[2]]
    return ", ".join(schema.get("enum", [])) or schema.get("type", "")


def settings_page() -> str:
    rows: dict[type, list[Sequence[str]]] = {}
    for each in variables_of(Settings):
        meaning = _meanings(each.settings)[each.field.name]
        rows.setdefault(each.settings, []).append((f"`{variable(each.name)}`", _default_text(each), meaning))
    lines = [
        "# Settings",
        "",
        "Made from `streamsched/config.py`; `make docs` writes it again. Roles read these variables once, when they",
        "start; a value that cannot be read or is out of bounds ends the command with exit code 2. Options of the",
        "command line override them. Durations are texts such as `90s`, `2h`, `7d`, `1d 12h`; `0` is zero.",
        "",
    ]
    for settings, listed in rows.items():
        title = (settings.__doc__ or "").partition(".")[0]
        lines += [f"## {title}", "", *table(("variable", "default", "meaning"), listed), ""]
    lines += [
        "Variables of clients, which are not settings of roles:",
        "",
        *table(
            ("variable", "read by", "meaning"),
            (
                ("`STREAMSCHED_URL`", "commands, emitters", "the API"),
                ("`STREAMSCHED_TOKEN`", "commands", "the token of requests, sent as a bearer token"),
                ("`STREAMSCHED_CONTEXT`", "commands", "the context whose server and token they use"),
                ("`STREAMSCHED_CONFIG_DIR`", "commands", "the folder of the contexts, in place of the user's"),
                ("`STREAMSCHED_EMIT_URL`", "emitters, file sets", "where events are sent; set in every run"),
                ("`STREAMSCHED_SPOOL`", "emitters, file sets", "folder for events that could not be sent"),
                ("`STREAMSCHED_NAMESPACE`", "emitters, file sets", "namespace of names without one; set in every run"),
            ),
        ),
        "",
        "`STREAMSCHED_DATABASE_URL` is PostgreSQL's URL. `STREAMSCHED_BROKER_URL` is a PostgreSQL URL, or",
        "`kafka://host:9092,host:9092/?…`; the options of the Kafka URL are listed in",
        "[`address.py`](../../brokers/streamsched_brokers/kafka/address.py).",
    ]
    return "\n".join(lines) + "\n"


@cache
def _meanings(settings: type) -> Mapping[str, str]:
    """The texts of `Attributes`, by field."""
    listed = section(settings.__doc__, "Attributes")
    return {name.strip(): text for names, text in listed for name in names.split(",")}


def _default_text(setting: Variable) -> str:
    if setting.name == "database_url":
        return "required"
    return f"`{setting.default}`" if setting.default else ""


def metrics_page() -> str:
    rows = [
        (
            f"`{PREFIX}{each.name}`",
            each.kind,
            ", ".join(f"`{label}`" for label in each.labels),
            each.question,
            each.help,
        )
        for each in TABLE
    ]
    lines = [
        "# Metrics",
        "",
        "Made from `streamsched/telemetry/metric_table.py`; `make docs` writes it again. The API serves them as",
        "`/metrics` to a viewer's token, workers and launchers on `STREAMSCHED_HEALTH_PORT` without one. The format is",
        "Prometheus' text format. A gauge appears after its first measurement; those of the whole installation are the",
        "API's. What to alert on: [answer an alert](../how-to/answer-an-alert.md).",
        "",
        *table(("metric", "kind", "labels", "question", "what is measured"), rows),
    ]
    return "\n".join(lines) + "\n"


def spans_page() -> str:
    rows = [
        (
            f"`{each.name}`",
            each.kind,
            each.begins,
            each.ends,
            each.parent,
            ", ".join(f"`{name}`" for name in each.attributes),
            each.error,
        )
        for each in SPANS
    ]
    lines = [
        "# Spans",
        "",
        "Made from `streamsched/telemetry/traces/span_table.py`; `make docs` writes it again. Spans are made while",
        "`STREAMSCHED_TRACES=true` ([trace an event](../how-to/trace-an-event.md)). Each is made from stored times",
        "when its job or run has ended, and its id from the names of both: sent again after a crash, it is the same",
        "span.",
        "",
        *table(("span", "kind", "begins when", "ends when", "parent", "attributes", "an error when"), rows),
        "",
        *table(("attribute", "meaning"), ((f"`{name}`", text) for name, text in ATTRIBUTES.items())),
    ]
    return "\n".join(lines) + "\n"
