"""A coordinator of Oozie (`coordinator.xml`): one app with one schedule.

<coordinator-app name frequency start end timezone>
  <controls> timeout, concurrency, execution, throttle </controls>
  <datasets> <dataset name frequency initial-instance timezone> uri-template, done-flag </dataset> </datasets>
  <input-events> <data-in name dataset> instance | start-instance, end-instance </data-in> </input-events>
  <input-logic> and, or, combine of data-in (dataset, min, wait) </input-logic>
  <action> <workflow> app-path, configuration </workflow> </action>

`${NAME}` is replaced by a property; functions (`${coord:…}`) are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from streamsched.codec.moving.draft import AppDraft, Imported, Report, placeholder, valid_name
from streamsched.dialects.oozie.codec.element import Element, parse
from streamsched.dialects.oozie.codec.frequency import moment, trigger_of
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.names import DEFAULT_NAMESPACE, AppRef
from streamsched.domain.time.zone import zone_of

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][\w.-]*)\}")
_CURRENT: Final = re.compile(r"\$\{\s*coord:(current|latest|offset|future)\(\s*(-?\d+)[^)]*\)\s*\}")
#: Most instances in one range.
_MOST_INSTANCES: Final = 10_000
_OVERLAPS: Final = {"FIFO": "queue", "LAST_ONLY": "latest", "NONE": "skip"}


@dataclass
class _Coordinator:
    """The document while it is read."""

    root: Element
    draft: AppDraft
    report: Report
    properties: Mapping[str, str]

    def fill(self, text: str, path: str) -> str:
        """A text with the properties in it."""

        def replace_property(found: re.Match[str]) -> str:
            if found[1] not in self.properties:
                self.report.cannot(path, f"${{{found[1]}}} has no value; `--set {found[1]}=…`")
            return self.properties.get(found[1], found[0])

        return _VARIABLE.sub(replace_property, text).strip()


def coordinator_from_xml(raw: bytes, app: AppRef | None, *, properties: Mapping[str, str]) -> Imported:
    """The app of a coordinator. `app`: its name here; None: that of the coordinator.

    Raises:
        DecodeError: it is no coordinator, or has a frequency, start or zone that is not understood; the path is the
            line.
    """
    root = parse(raw)
    if root.tag != "coordinator-app":
        raise DecodeError(root.path, f"is <{root.tag}>, not <coordinator-app>")
    report = Report()
    name = valid_name(_VARIABLE.sub(lambda found: properties.get(found[1], found[1]), root.attributes.get("name", "")))
    draft = AppDraft(app or AppRef(DEFAULT_NAMESPACE, name), report)
    found = _Coordinator(root, draft, report, properties)
    program = draft.add_program(name, placeholder(_workflow(found)), root.path)
    if program is None:
        return Imported((draft.document(),), tuple(report.notes))
    fields = _controls(found)
    trigger = _trigger(found)
    if draft.add_schedule(name, {"program": program, "trigger": trigger, "misfire": "all", **fields}, root.path):
        report.carries(root.path, f"schedule {draft.ref.app}.{name}")
        report.carries("all", "ticks missed while everything is down are made up for (`misfire: all`)")
    return Imported((draft.document(),), tuple(report.notes))


def _workflow(found: _Coordinator) -> str:
    action = found.root.first_child("action")
    workflow = None if action is None else action.first_child("workflow")
    if workflow is None:
        found.report.cannot(found.root.path, "has no workflow")
        return "the workflow"
    path = found.fill(workflow.value("app-path"), workflow.path)
    found.report.cannot(workflow.path, f"workflow {path}: its program is a placeholder that fails until it is replaced")
    configuration = workflow.first_child("configuration")
    for each in () if configuration is None else configuration.all("property"):
        text = f"property {each.value('name')} = {each.value('value')} is left out; see `properties` of a schedule"
        found.report.cannot(each.path, text)
    return f"workflow {path}"


def _controls(found: _Coordinator) -> dict[str, Any]:
    """Policies and constraints of the schedule."""
    controls, report = found.root.first_child("controls"), found.report
    if controls is None:
        controls = Element("controls", {}, found.root.line)
    fields: dict[str, Any] = {}
    concurrency = _number(found, controls, "concurrency") or 1
    if concurrency > 0:
        fields["constraints"] = [{"type": "CONCURRENCY", "maxConcurrency": concurrency, "waitUntilMet": True}]
        report.carries(controls.path, f"concurrency: at most {concurrency} at a time")
    timeout = _number(found, controls, "timeout")
    if timeout is not None and timeout > 0:
        fields["timeout"] = f"{timeout}m"
        report.differs(controls.path, f"timeout of {timeout} min: here of a job that waits for its constraints")
    execution = found.fill(controls.value("execution"), controls.path).upper() or "FIFO"
    if execution in _OVERLAPS:
        fields["overlap"] = _OVERLAPS[execution]
        report.carries(controls.path, f"execution {execution}: overlap `{_OVERLAPS[execution]}`")
    else:
        fields["overlap"] = "queue"
        report.cannot(controls.path, f"execution {execution}: jobs run oldest first")
    if controls.value("throttle"):
        report.cannot(controls.path, "throttle is left out: waiting jobs cost little")
    if found.root.attributes.get("end"):
        report.cannot(found.root.path, "`end`: a schedule has no end; disable or delete it then")
    return fields


def _number(found: _Coordinator, parent: Element, tag: str) -> int | None:
    text = found.fill(parent.value(tag), parent.path)
    if not text:
        return None
    try:
        return int(text[:12])
    except ValueError:
        found.report.cannot(parent.path, f"{tag} '{text}' is no number")
        return None


def _trigger(found: _Coordinator) -> dict[str, Any]:
    root, report = found.root, found.report
    zone = found.fill(root.attributes.get("timezone", ""), root.path) or "UTC"
    start = _start(found, zone)
    frequency = found.fill(root.attributes.get("frequency", ""), root.path)
    tick = trigger_of(frequency, start, zone, root.path, report)
    report.differs(root.path, "`start`: a schedule begins when it is deployed and enabled")
    inputs = _inputs(found)
    logic = root.first_child("input-logic")
    data = None
    if logic is not None:
        data = _join(found, [_logic(found, child, inputs) for child in logic.children], "AND")
    elif inputs:
        data = _join(found, list(inputs.values()), "AND")
    if data is None:
        return tick
    report.differs(
        root.path,
        "an action waits for the instances of its nominal time there; here for new partitions since the last job",
    )
    return {"type": "AND", "triggers": [tick, data]}


def _start(found: _Coordinator, zone: str) -> datetime:
    """The start in the zone of the coordinator."""
    root = found.root
    begin = moment(found.fill(root.attributes.get("start", ""), root.path), root.path)
    try:
        return begin.astimezone(zone_of(zone))
    except InvalidError as exc:
        raise DecodeError(root.path, exc.reason) from exc
    except OverflowError as exc:
        raise DecodeError(root.path, "its start is out of the range of times") from exc


def _inputs(found: _Coordinator) -> dict[str, dict[str, Any]]:
    """The trigger of each `data-in` by its name."""
    events, datasets = found.root.first_child("input-events"), found.root.first_child("datasets")
    known = {} if datasets is None else {each.attributes.get("name", ""): each for each in datasets.all("dataset")}
    for name, each in known.items():
        uri = each.value("uri-template")
        flag = each.first_child("done-flag")
        done = "_SUCCESS" if flag is None else flag.text.strip() or "the folder itself"
        found.report.differs(
            each.path, f"dataset {name} ({uri}, done-flag {done}): a run must write it, or `watch` must watch it"
        )
    inputs: dict[str, dict[str, Any]] = {}
    for each in () if events is None else events.all("data-in"):
        name, dataset = each.attributes.get("name", ""), each.attributes.get("dataset", "")
        if dataset not in known:
            found.report.cannot(each.path, f"dataset {dataset} is not in this file (<include> is not read)")
        inputs[name] = {"type": "PARTITION", "dataset": valid_name(dataset), "numPartitions": _count(found, each)}
    return inputs


def _count(found: _Coordinator, data: Element) -> int:
    """The number of instances of an input."""
    single = len(list(data.all("instance")))
    if single:
        return single
    ends = [_CURRENT.fullmatch(data.value(tag)) for tag in ("start-instance", "end-instance")]
    first, last = ends
    if first is None or last is None or first[1] != last[1]:
        found.report.cannot(data.path, "its range of instances is not understood; one partition is awaited")
        return 1
    count = abs(int(last[2][:9]) - int(first[2][:9])) + 1
    return min(count, _MOST_INSTANCES)


def _logic(found: _Coordinator, node: Element, inputs: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    """The trigger of a part of <input-logic>."""
    if "wait" in node.attributes:
        found.report.cannot(node.path, f"wait={node.attributes['wait']} is left out; see `.quiet` and `.within`")
    match node.tag:
        case "data-in":
            data = inputs.get(node.attributes.get("dataset", ""))
            if data is None:
                found.report.cannot(node.path, f"there is no data-in '{node.attributes.get('dataset', '')}'")
                return None
            least = node.attributes.get("min", "")
            return {**data, "numPartitions": max(1, int(least[:6]))} if least.isdecimal() else data
        case "and":
            return _join(found, [_logic(found, child, inputs) for child in node.children], "AND")
        case "or":
            return _join(found, [_logic(found, child, inputs) for child in node.children], "OR")
        case "combine":
            found.report.differs(node.path, "combine: here any of the inputs, not instances of both together")
            return _join(found, [_logic(found, child, inputs) for child in node.children], "OR")
        case _:
            found.report.cannot(node.path, f"<{node.tag}> is not known here")
            return None


def _join(found: _Coordinator, parts: list[dict[str, Any] | None], kind: str) -> dict[str, Any] | None:
    given = [part for part in parts if part is not None]
    return None if not given else given[0] if len(given) == 1 else {"type": kind, "triggers": given}
