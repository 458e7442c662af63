"""Pages of the documentation as tests: their blocks, and a walkthrough that types their commands.

| block | what the test does with it |
|---|---|
| any language, first line `# name.ext` | writes the file into the folder of the walkthrough |
| `console` | types each line that begins with `$ `; the lines below it are the output |
| `sh` | is not run (it needs other machines or root); its `streamsched` commands and variables must exist |
| `python` without a name | is compiled |
| `text`, `mermaid` | nothing |

Output is compared line by line with white space collapsed. `…` stands for any text, a line that is only `…` for any
lines. Instants, durations in seconds, ports, folders and generated ids may differ; a generated id that is used in a
later command is replaced with the one of this walkthrough. Commands that only read are repeated until their output is
the one of the page, for four minutes at most. `UPDATE_DOCS=1` writes the real output into the page where it differs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Final

from tests.support.dev_process import DevProcess
from tests.support.made_files import are_written

ROOT: Final = Path(__file__).parents[2]

#: Seconds of repeating before the real output is written into the page; None: it is compared.
_UPDATE: Final = 90.0 if are_written() else None

#: What stands in pages for the folder of a walkthrough, and for its API.
FOLDER: Final = "/home/you/shop"
_API: Final = "http://127.0.0.1:8765"

_PAGES: Final = (
    "README.md",
    "docs/index.md",
    "docs/tutorial/*.md",
    "docs/how-to/*.md",
    "docs/explanation/one-event.md",
)
_FENCE: Final = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", flags=re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"(?:#|//|--) ([\w./-]+\.\w+)\n")
_READS: Final = re.compile(
    r"streamsched \w+ (list|show|why|why-not|keys|next|logs)\b|streamsched (top|diff|doctor)\b|(cat|ls) "
)
#: Of the login link that `streamsched dev` prints.
_LOGIN_CODES: Final = re.compile(r"code=code[\w.-]+")
_SHORT_SOCKETS: Final = re.compile(r"/\S*/streamsched-[0-9a-f]{16}")
_GENERATED: Final = re.compile(r"manual-[0-9a-f]{8}|\b[0-9a-f]{32}\b")
_VARIABLE: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?"), "INSTANT"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?\b"), "INSTANT"),
    (re.compile(r" \(\d+:\d\d:\d\d\)$"), ""),  # which pytest adds to more than a minute
    (re.compile(r"\b(\d+m)?\d+(\.\d+)?(ms|s)\b|\b\d+m\b"), "SECONDS"),
    (re.compile(r"\bpid \d+"), "PID"),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    start: int

    @property
    def file(self) -> str | None:
        """The name of the file it holds, if any."""
        found = _FILE.match(self.text) if self.language not in {"console", "sh", "text", "mermaid"} else None
        return None if found is None else found[1]

    def steps(self) -> Iterator[tuple[str, list[str]]]:
        """Commands of a `console` block, each with the lines of its output."""
        for step in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, *output = step.rstrip("\n").split("\n")
            while command.endswith("\\"):
                command = f"{command}\n{output.pop(0)}"
            yield command, output


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page; those in lists without their indentation."""
    return [Block(found[2], dedent(found[3]), found.start(3)) for found in _FENCE.finditer(text)]


def all_pages() -> list[Path]:
    return sorted(page for pattern in _PAGES for page in ROOT.glob(pattern))


def every_page() -> list[Path]:
    """Also those that are references and explanations."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass
class Walkthrough:
    """Follows pages in one folder: writes their files, types their commands, compares the output."""

    dev: DevProcess
    #: What stands in the pages → what it is here, such as the URL of a database.
    stands_for: dict[str, str] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    transcript: list[str] = field(default_factory=list)
    #: Heading → what happens before its section, while the reader waits.
    meanwhile: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)
    _background: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def write_files(self, page: Path) -> None:
        """Only the files of a page."""
        for block in blocks(page.read_text()):
            if block.file is not None:
                (self.dev.folder / block.file).write_text(block.text)

    def follow(self, page: Path) -> None:
        """Every block of a page, in order."""
        text, at = page.read_text(), 0
        replaced: list[tuple[Block, str]] = []
        for block in blocks(text):
            for heading in re.findall(r"^## (.+)$", text[at : block.start], flags=re.MULTILINE):
                self.meanwhile.get(heading, lambda: None)()
            at = block.start
            if block.file is not None:
                (self.dev.folder / block.file).write_text(block.text)
            elif block.language == "console":
                replaced.append((block, "".join(self._followed(block))))
        if _UPDATE:
            for block, real in reversed(replaced):
                text = text[: block.start] + real + text[block.start + len(block.text) :]
            page.write_text(text)

    def _followed(self, block: Block) -> Iterator[str]:
        for command, expected in block.steps():
            real = self.types(command, expected)
            yield f"$ {command}\n" + "".join(f"{line}\n" for line in real)

    def types(self, command: str, expected: list[str]) -> list[str]:
        """Types a command; returns the lines the page should have: its own when they match, else the real ones.

        Raises:
            AssertionError: they differ, and `UPDATE_DOCS` is not set.
        """
        repeated = _READS.match(command) is not None
        deadline = time.monotonic() + ((_UPDATE or 480.0) if repeated else 0)
        pause = 0.5
        while True:
            lines = self._shown(self._run(command)).rstrip("\n").split("\n")
            matches = self._matches(expected, lines)
            if matches or time.monotonic() > deadline:
                break
            pause = min(2 * pause, 8.0)  # a command takes a second of a core, which Spark needs
            time.sleep(pause)
        self.transcript.append("\n".join([f"$ {command}", *lines]))
        if matches:
            return expected
        if _UPDATE:
            return [line.rstrip() for line in lines if line.strip()]
        wanted = "\n".join(expected)
        raise AssertionError(f"the page says\n{wanted}\nfor the last command of\n" + "\n".join(self.transcript))

    def _run(self, command: str) -> str:
        command = re.sub(r" *\\\n>? *", " ", command)
        for shown, real in (*self._ids.items(), *self._places()):
            command = command.replace(shown, real)
        if command == "streamsched dev":
            said = self.dev.start(**self.environ)
            if found := re.search(r"http://127\.0\.0\.1:\d+", said):
                self.stands_for[_API] = found[0]
            return said
        if found := re.fullmatch(r"export (\w+)=(\S+)", command):
            self.environ[found[1]] = found[2]
            return ""
        if found := re.fullmatch(r"export (\w+)=\$\(cat (\S+)\)", command):
            self.environ[found[1]] = (self.dev.folder / found[2]).read_text().strip()
            return ""
        if command.startswith("kill %"):
            for number in re.findall(r"%(\d+)", command):
                self._end(self._background[int(number) - 1])
            return ""
        environ = self.dev.environ(**self.environ, COLUMNS="120")
        environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
        if command.endswith(" &"):
            with (self.dev.folder / "background.log").open("ab") as log:
                words = command[:-2].split()
                process = subprocess.Popen(words, cwd=self.dev.folder, env=environ, stdout=log, stderr=log)
            self._background.append(process)
            return ""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.dev.folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if command.startswith("python ") else subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        if command.startswith("python ") and done.returncode:
            raise AssertionError(f"{command} failed: {done.stderr}")
        return done.stdout

    def _shown(self, text: str) -> str:
        for shown, real in self._places():
            text = text.replace(real, shown)
        text = _LOGIN_CODES.sub("code=…", text)
        return _SHORT_SOCKETS.sub(f"{FOLDER}/.streamsched/postgres", text)

    def _places(self) -> Iterator[tuple[str, str]]:
        yield from self.stands_for.items()
        yield FOLDER, str(self.dev.folder.resolve())

    def _matches(self, expected: list[str], lines: list[str]) -> bool:
        """Compares; when they match, notes which generated id of the page is which of this walkthrough."""
        wanted = [_normal(line) for line in expected if line.strip()]
        pattern = "\n".join(
            r"(?:[^\n]*(?:\n[^\n]*)*)" if line == "…" else re.escape(line).replace("…", r"[^\n]*") for line in wanted
        )
        if re.fullmatch(pattern, "\n".join(_normal(line) for line in lines if line.strip())) is None:
            return False
        shown, real = (_GENERATED.findall("\n".join(each)) for each in (expected, lines))
        if len(shown) == len(real):
            self._ids |= dict(zip(shown, real, strict=True))
        return True

    def close(self) -> None:
        """Ends what the page started in the background, and `streamsched dev`."""
        for process in self._background:
            if process.poll() is None:
                self._end(process)
        self._background.clear()
        self.dev.close()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        process.wait(timeout=60)


def _normal(line: str) -> str:
    for pattern, name in _VARIABLE:
        line = pattern.sub(name, line)
    line = _GENERATED.sub("ID", line)
    return " ".join(line.split())
