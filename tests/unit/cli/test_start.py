"""Starting the command line: what is imported, and how much processor time that takes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from streamsched.cli.shell.command_table import CommandTable, commands

#: Seconds of processor time beyond Python's own.
LIMIT = 0.3
#: Starts until one is quick enough: other processes of the machine make one slower, none quicker.
TRIES = 25

MAIN = "from streamsched.cli.main import main; main()"
SCHEDULES = ("schedule", "list", "--url", "http://127.0.0.1:1")


def processor_time(*arguments: str) -> float:
    """User and system time of a Python process, in seconds."""
    process = subprocess.Popen(
        (sys.executable, "-c", *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ}
    )
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize(
    "arguments", [("--version",), ("--help",), SCHEDULES, ("job", "list", *SCHEDULES[2:])], ids=" ".join
)
def test_a_command_starts_quickly(arguments: tuple[str, ...]) -> None:
    taken: list[float] = []
    for _ in range(TRIES):
        taken.append(processor_time(MAIN, *arguments) - processor_time("pass"))
        if taken[-1] < LIMIT:
            return
    raise AssertionError(f"at least {min(taken):.2f} s")


def test_the_summary_of_each_command_is_the_first_sentence_of_its_help() -> None:
    table = CommandTable()

    assert {name: source.summary for name, source in commands().items()} == {
        name: command.get_short_help_str(1000) for name, command in table.items()
    }


def test_a_command_imports_no_heavy_library_and_no_other_command() -> None:
    heavy = ("pydantic", "httpx", "asyncio", "faust", "starlette", "streamsched.emit.client")
    others = ("streamsched.cli.commands.dev", "streamsched.cli.commands.graphs.graph")
    code = (
        f"import sys; sys.argv = ['streamsched', *{SCHEDULES!r}]\n"
        "from streamsched.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print([each for each in {(*heavy, *others)!r} if each in sys.modules])"
    )
    found = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
