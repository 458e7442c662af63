"""The whole of `streamsched dev` killed again and again while events come: every satisfaction runs, and runs once.

    python -m tests.faults.whole_dev --kills 6 --seed 1

Every fifth event of a name starts a program that notes its run. An emitter with a spool goes on while no server runs.
The last line: `kills N jobs N lost 0 doubled 0`.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import psutil

from compose.ports import free_port
from streamsched.emit import Emitter
from streamsched.emit.draft import custom
from streamsched.store.server.embedded_server import stop_server
from tests.support.dev_process import DevProcess

NAMES = 12
TIMES = 5
APP = """
from streamsched import App, event

app = App("torture")
note = app.bash("note", "echo $STREAMSCHED_RUN_ID >> {ran}")
for n in range({names}):
    app.schedule(f"s{{n}}", note, when=event(f"e{{n}}", {times}), overlap="queue")
"""


def run(folder: Path, *, kills: int, seed: int) -> tuple[str, bool]:
    """One trial in an empty folder; the closing line, and whether nothing was lost or doubled."""
    rng = random.Random(seed)
    dev = DevProcess(folder)
    ran = folder / "ran"
    (folder / "app.py").write_text(APP.format(ran=ran, names=NAMES, times=TIMES))
    port = str(free_port())
    emitted: Counter[int] = Counter()
    enough = threading.Event()

    def emit() -> None:
        with Emitter(
            f"http://127.0.0.1:{port}", source="torture", spool=dev.state / "spool" / "outside-runs", token=dev.token
        ) as emitter:
            while not enough.wait(0.05):
                name = rng.randrange(NAMES)
                emitter.emit(custom(f"e{name}"))
                emitted[name] += 1

    emitting = threading.Thread(target=emit)
    try:
        dev.start("--port", port)
        assert dev.run("deploy", "app.py").code == 0
        emitting.start()
        for kill in range(kills):
            threading.Event().wait(random.Random(f"{seed}.{kill}").uniform(1.0, 6.0))
            _kill(dev, postgres=kill % 2 == 1)
            dev.start("--port", port)
        enough.set()
        emitting.join()
        wanted = {
            f"default.torture.s{name}.1.{sequence}.r1"
            for name, count in emitted.items()
            for sequence in range(1, count // TIMES + 1)
        }
        dev.until(lambda: ran.exists() and _settled(dev, len(wanted)), within=300)
        found = Counter(ran.read_text().split())
    finally:
        enough.set()
        dev.close()
        stop_server(dev.state / "postgres")
    lost, doubled = len(wanted - found.keys()), sum(found.values()) - len(found)
    strange = found.keys() - wanted
    line = f"kills {kills} jobs {len(wanted)} lost {lost} doubled {doubled}"
    return (f"{line} strange {sorted(strange)}" if strange else line), not (lost or doubled or strange)


def _settled(dev: DevProcess, jobs: int) -> bool:
    runs = json.loads(dev.run("run", "list", "--limit", "1000", "-o", "json").out)
    return len({each["job"] for each in runs}) >= jobs and all(each["endedAt"] for each in runs)


def _kill(dev: DevProcess, *, postgres: bool) -> None:
    postmaster = psutil.Process(int((dev.state / "postgres" / "postmaster.pid").read_text().splitlines()[0]))
    dev.stop(signal.SIGKILL)
    if postgres:
        postmaster.kill()
        postmaster.wait(10)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ss-dev-", ignore_cleanup_errors=True) as folder:
        line, well = run(Path(folder), kills=asked.kills, seed=asked.seed)
    sys.stdout.write(f"{line}\n")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
