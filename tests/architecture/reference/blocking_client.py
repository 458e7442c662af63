"""The client that blocks, made from the one with `await`: a word of the one stands for a word of the other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
SOURCE: Final = ROOT / "streamsched" / "client" / "asynchronous.py"
TARGET: Final = ROOT / "streamsched" / "client" / "blocking.py"

_TEXTS: Final = {
    '"""The client with `await`."""': (
        '"""The client that blocks. Made from `asynchronous.py`; `make docs` writes it again."""'
    ),
    "Sends requests to one API. Several tasks of one loop may use it at a time.": (
        "Sends requests to one API, and waits for each. One thread at a time uses it."
    ),
    "import asyncio\n": "",
    "asyncio.sleep": "time.sleep",
    "        transport: httpx.AsyncBaseTransport | None = None,\n": "",
    "            transport: how requests are sent, such as to an application in this process; None: over the network."
    "\n": "",
    ", transport=transport": "",
    "from streamsched.client.async_connection import AsyncConnection\n": (
        "from streamsched.process.http_connection import BlockingConnection\n"
    ),
}
_WORDS: Final = {
    "AsyncClient": "Client",
    "AsyncConnection": "BlockingConnection",
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclosing": "closing",
}
_ASYNC: Final = re.compile(r"\b(?:async|await) ")


def blocking_client() -> str:
    """The module, in the order and form of ruff.

    Raises:
        ValueError: a text that is replaced is not in the source.
    """
    text = SOURCE.read_text("utf-8")
    for before, after in _TEXTS.items():
        if before not in text:
            raise ValueError(f"{SOURCE.name} does not have: {before}")
        text = text.replace(before, after)
    head, mark, rest = text.partition('"""\n')  # the docstring has the word `await`
    text = head + mark + _ASYNC.sub("", re.sub(r"\w+", lambda word: _WORDS.get(word[0], word[0]), rest))
    return _ruff("format", _ruff("check", text, "--fix", "--unsafe-fixes", "--quiet", "--select", "I,UP028,F401"))


def _ruff(command: str, text: str, *options: str) -> str:
    """What ruff makes of a text that is to be the blocking client."""
    asked = [sys.executable, "-m", "ruff", command, *options, "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(asked, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
