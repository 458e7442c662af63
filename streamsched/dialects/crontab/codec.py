"""A crontab: each entry becomes a bash program and a schedule.

    # comment              NAME = value             30 2 * * 1-5 command       @daily command
    30 2 * * 1-5 root command                       (system format: with a user)

As in Vixie's cron: a variable holds for the entries below it; in a command `%` is a line break, what follows the first
one is the standard input, and `\\%` is a percent sign. `CRON_TZ` and `TZ` are the zone of the entries below.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from streamsched.codec.moving.draft import AppDraft, Imported, Report
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.names import AppRef
from streamsched.domain.time.zone import check_zone

#: Most bytes of one crontab.
LARGEST: Final = 32 * 1024 * 1024
_VARIABLE: Final = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*?)\s*$""")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELDS: Final = 5
_NICKNAMES: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_ZONES: Final = frozenset({"CRON_TZ", "TZ"})
#: Variables that cron itself reads.
_OF_CRON: Final = frozenset({"MAILTO", "MAILFROM", "RANDOM_DELAY", "START_HOURS_RANGE", "CONTENT_TYPE", "CRON_TZ"})
#: Words before the command that name it badly.
_WRAPPERS: Final = frozenset({"cd", "env", "exec", "flock", "ionice", "nice", "nohup", "sudo", "test", "timeout", "["})


@dataclass
class _Reading:
    """The state between two lines."""

    zone: str
    variables: dict[str, str] = field(default_factory=dict[str, str])


def crontab_from_text(raw: bytes, app: AppRef, *, system: bool = False, zone: str = "") -> Imported:
    """The app of a crontab. An entry that is not understood is left out, with a note.

    Args:
        system: entries name a user, as in /etc/crontab and /etc/cron.d.
        zone: the zone of the machine; empty: unknown, UTC is used.

    Raises:
        DecodeError: it is too large, or not text.
        InvalidDefinitionError: there is no such zone.
    """
    if zone:
        check_zone(zone, "--zone")
    if len(raw) > LARGEST:
        raise DecodeError("$", f"has {len(raw)} bytes, the most are {LARGEST}")
    try:
        text = raw.decode()
    except UnicodeDecodeError as exc:
        line = raw[: exc.start].count(b"\n") + 1
        raise DecodeError(f"line {line}", "is not UTF-8") from exc
    report = Report()
    draft, reading = AppDraft(app, report), _Reading(zone or "UTC")
    for number, line in enumerate(text.split("\n"), 1):
        _line(line.rstrip("\r"), f"line {number}", draft, reading, system=system)
    if draft.schedules:
        _of_all(report, zone)
    elif not report.notes:
        report.cannot("all", "no entry was found")
    return Imported((draft.document(),), tuple(report.notes))


def _of_all(report: Report, zone: str) -> None:
    """The notes about every entry."""
    report.carries("all", "a tick while everything is down starts nothing (`misfire: skip`), as with cron")
    report.carries("all", "a run starts also while an earlier one is active; `max_concurrent` prevents that")
    if not zone:
        report.differs("all", "times are UTC where no CRON_TZ is given; --zone names the zone of the machine")
    report.differs("all", "output is kept in the log of the run instead of mailed")
    report.differs("all", "commands run by bash as the user of the launcher, in the folder of the run, not in the home")


def _line(line: str, path: str, draft: AppDraft, reading: _Reading, *, system: bool) -> None:
    entry = line.strip(" \t")
    if not entry or entry.startswith("#"):
        return
    if (found := _VARIABLE.match(line)) is not None:
        _variable(found[1] or found[2] or found[3] or "", found[4], path, draft.report, reading)
        return
    quiet = entry.startswith("-")  # of SUSE and Debian: no line in syslog
    if quiet:
        entry = entry[1:]
    words = 1 if entry.startswith("@") else _FIELDS
    parts = entry.split(None, words + (1 if system else 0))
    if len(parts) <= words + (1 if system else 0):
        needed = "a time, a user and a command" if system else "a time and a command"
        draft.report.cannot(path, f"is not {needed}: {entry[:80]}")
        return
    time, command = " ".join(parts[:words]), parts[-1]
    if time.startswith("@"):
        time = time.lower()
    if time == "@reboot":
        draft.report.cannot(path, "@reboot: nothing here starts with the machine; start it with systemd")
        return
    if time.startswith("@") and time not in _NICKNAMES:
        draft.report.cannot(path, f"{time} is no time that is known here")
        return
    if "~" in time:
        draft.report.cannot(path, f"'{time}': a random time; use `jitter`")
        return
    if system:
        draft.report.differs(path, f"runs as the user of the launcher, not as {parts[words]}")
    _entry(time, command, path, draft, reading)


def _variable(name: str, value: str, path: str, report: Report, reading: _Reading) -> None:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    if name in _ZONES:
        reading.zone = value or "UTC"
        try:
            check_zone(reading.zone, path)
        except InvalidError as exc:
            report.cannot(path, f"{name}: {exc.reason}")
        else:
            report.carries(path, f"{name}: the zone of the entries below is {reading.zone}")
    if name == "MAILTO" and value:
        report.cannot(path, f"no mail is sent to {value}; a schedule on `program(…, 'failed')` can start one")
    elif name in {"RANDOM_DELAY", "START_HOURS_RANGE"}:
        report.cannot(path, f"{name} is left out; see `jitter` and `catch_up`")
    elif name == "SHELL" and PurePosixPath(value).name not in {"bash", "sh"}:
        report.differs(path, f"commands run by bash, not by {value}")
    if name in _OF_CRON or name == "SHELL":
        return
    if _NAME.fullmatch(name) is None:
        report.cannot(path, f"'{name}' is no name of a variable of bash")
        return
    reading.variables[name] = value


def _entry(time: str, command: str, path: str, draft: AppDraft, reading: _Reading) -> None:
    script, stdin = _split_command(command)
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in reading.variables.items())
    if stdin is not None:
        script = f"printf '%s' {shlex.quote(stdin)} | {{ {script}\n}}"
    name = f"{_called_name(command)}-{path.removeprefix('line ')}"
    program = draft.add_program(name, {"type": "bash", "command": exports + script}, path)
    if program is None:
        return
    trigger: dict[str, Any] = {"type": "TIME", "cronExpression": time}
    if reading.zone != "UTC":
        trigger["timeZone"] = reading.zone
    if draft.add_schedule(program, {"program": program, "trigger": trigger, "misfire": "skip"}, path) is None:
        del draft.programs[program]
    else:
        draft.report.carries(path, f"schedule {program}: {time} in {reading.zone}")


def _split_command(command: str) -> tuple[str, str | None]:
    """The script and the standard input of a command; None without one."""
    lines: list[str] = []
    current, at = "", 0
    while at < len(command):
        letter = command[at]
        if letter == "\\" and command[at + 1 : at + 2] == "%":
            current, at = current + "%", at + 2
        elif letter == "%":
            lines.append(current)
            current, at = "", at + 1
        else:
            stop = _next_special(command, at + 1)
            current, at = current + command[at:stop], stop
    script, *given = [*lines, current]
    return script, "\n".join(given) + "\n" if given else None


def _next_special(command: str, start: int) -> int:
    """The place of the next percent sign or backslash, else the end."""
    found = [place for mark in "%\\" if (place := command.find(mark, start)) >= 0]
    return min(found, default=len(command))


def _called_name(command: str) -> str:
    """The last part of the path of the first word that says what the command is."""
    words = command.replace(";", " ").replace("&", " ").split()[:8]
    for former, word in zip(["", *words], words, strict=False):
        if former == "cd":
            continue
        bare = PurePosixPath(word.strip("'\"")).name
        if bare and "=" not in word and not word.startswith("-") and bare not in _WRAPPERS and bare[0].isalpha():
            return bare.partition(".")[0] or bare
    return "entry"
