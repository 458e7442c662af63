"""Commands as processes: `deploy` of hostile files, and others with hostile arguments."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from tests.faults.processes.command import environ, role
from tests.hostile.case import Made, Site
from tests.hostile.extremes import EVERYTHING, Raw

#: How long a command may take; `deploy` of a file that never ends has no end of its own.
_WITHIN_S: Final = 30.0

_BOMB: Final = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
FILES: Final = (
    ("yaml", "empty", b""),
    ("yaml", "aliases of aliases", _BOMB.encode()),
    (
        "yaml",
        "aliases of aliases as an app",
        b"application: x\nprograms:\n" + b"  " + _BOMB.replace("\n", "\n  ").encode(),
    ),
    ("yaml", "lists 10,000 deep", b"[" * 10_000 + b"]" * 10_000),
    ("yaml", "broken UTF-8", b"application: \xff\xfe\n"),
    ("yaml", "a NUL", b"application: a\0b\n"),
    ("yaml", "a Python object", b"!!python/object/apply:os.system ['true']\n"),
    ("yaml", "a loop", b"application: x\nprograms: &p\n  a: *p\n"),
    ("yaml", "a key twice", b"application: x\napplication: y\n"),
    ("yaml", "two documents", b"application: x\n---\napplication: y\n"),
    ("yaml", "a text of 5 MB", b"application: " + b"x" * 5_000_000),
    ("yaml", "odd keys", b"1: 2\ntrue: x\n? [a, b]\n: c\n"),
    ("py", "empty", b""),
    ("py", "it raises", b"raise RuntimeError('x' * 100000)\n"),
    ("py", "it exits", b"raise SystemExit(0)\n"),
    ("py", "it is interrupted", b"raise KeyboardInterrupt\n"),
    ("py", "it recurses", b"def f(): f()\nf()\n"),
    ("py", "no Python", b"def (\n"),
    ("py", "a NUL", b"x = 1\0\n"),
    ("py", "broken UTF-8", b"x = '\xff'\n"),
    ("py", "brackets 5,000 deep", b"x = " + b"(" * 5000 + b")" * 5000),
    ("py", "two apps", b"from streamsched import App\na = App('x')\nb = App('y')\n"),
    ("py", "a name of 10,000 letters", b"from streamsched import App\na = App('x' * 10000)\n"),
    (
        "py",
        "trigger of 5,000 levels",
        b"from streamsched import App, partitions\na = App('NAME')\np = a.bash('p', 'true')\n"
        b"t = partitions('d', 1)\nfor n in range(5000): t = (t & partitions('e', 1)) | partitions('f', 1)\n"
        b"a.schedule('s', p, when=t)\n",
    ),
    (
        "py",
        "delay of 10^15 s",
        b"from streamsched import App, event\na = App('NAME')\np = a.publish('p', 'x')\n"
        b"a.schedule('s', p, when=event('go'), delay='1000000000000000s')\n",
    ),
)
_COMMANDS: Final = (
    ("schedule", "show", "{}"),
    ("schedule", "next", "{}"),
    ("event", "why", "{}"),
    ("job", "why", "{}"),
    ("run", "logs", "{}"),
    ("cron", "next", "{}"),
    ("event", "emit", "partitions", "heard", "{}"),
    ("event", "emit", "custom", "heard", "a={}"),
    ("event", "emit", "stream", "heard", "{}"),
    ("pool", "set", "h-p", "{}"),
    ("schedule", "list"),
    ("job", "list"),
)


def deployed(name: str, rng: random.Random) -> Made:
    """`streamsched deploy` of a hostile file."""
    ending, said, content = rng.choice(FILES)

    async def act(site: Site) -> None:
        path = site.folder / f"{name}.{ending}"
        path.write_bytes(content.replace(b"NAME", name.encode()))
        await _run(site, "deploy", str(path))

    return f"deploy of a .{ending} file: {said}", act


def asked(name: str, rng: random.Random) -> Made:
    """Another command, with an extreme as its argument."""
    command = rng.choice(_COMMANDS)
    extreme = rng.choice(EVERYTHING)
    text = (extreme.value.text if isinstance(extreme.value, Raw) else str(extreme.value)).replace("\0", "")[:100_000]
    del name

    async def act(site: Site) -> None:
        await _run(site, *(part.replace("{}", text) for part in command))

    return f"streamsched {' '.join(command)}: {extreme.name}", act


async def _run(site: Site, *arguments: str) -> None:
    encoded = [part.encode("utf-8", "surrogatepass") for part in (*role(arguments[0]), *arguments[1:])]
    process = await asyncio.create_subprocess_exec(
        *encoded,
        env=environ(url=site.url),
        cwd=site.folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await asyncio.wait_for(process.communicate(), _WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        site.faults[f"streamsched {' '.join(arguments)[:120]}: did not end within {_WITHIN_S:g} s"] += 1
        return
    if b"Traceback (most recent call last)" in said:
        last = said.decode(errors="replace").strip().splitlines()[-1][:200]
        site.faults[f"streamsched {' '.join(arguments)[:120]}: traceback: {last}"] += 1
