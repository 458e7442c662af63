"""Programs of a bundle on a machine that has only the database: real runner processes, also killed as they fetch."""

from __future__ import annotations

# ruff: noqa: ASYNC220, ASYNC240  (real processes and small files, and no other task on this loop)
import asyncio
import io
import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from streamsched.domain.schedules.process_job import PythonJob
from streamsched.process.bundle_archive import chunks_of, folder_files, pack
from streamsched.store.programs.bundles import BundleStore

from .conftest import World
from .test_runner import ENDED, Place, eventually

pytestmark = pytest.mark.postgres

UPLOAD = """
import asyncio, sys, time
from datetime import UTC, datetime
from streamsched.store.connections import open_pool
from streamsched.store.programs.bundles import BundleStore

def chunks():
    yield b"x" * 1000
    yield b"y" * 1000
    print("sent", flush=True)
    sys.stdin.read()

async def main():
    store = BundleStore(await open_pool(sys.argv[1]))
    await store.put("default", "a" * 64, chunks(), size=3000, files=1, now=datetime.now(UTC))

asyncio.run(main())
"""


async def stored(world: World, folder: Path) -> str:
    """The digest of the folder's bundle; the folder is gone afterwards."""
    raw = io.BytesIO()
    files = folder_files(folder, most_bytes=10**8)
    digest = pack(folder, files, raw)
    now, size = datetime.now(UTC), len(raw.getvalue())
    store = BundleStore(world.pool)
    assert await store.put("default", digest, chunks_of(raw), size=size, files=len(files), now=now)
    shutil.rmtree(folder)
    return digest


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "parts").mkdir(parents=True)
    (folder / "words.txt").write_text("bundled words")
    (folder / "parts" / "tool.py").write_text(
        "from pathlib import Path\n"
        "def run():\n"
        "    print(Path.home(), (Path(__file__).parents[1] / 'words.txt').read_text())\n"
    )
    (folder / "big.bin").write_bytes(os.urandom(3_000_000))
    return folder


async def test_a_launcher_elsewhere_executes_a_bundle(world: World, tmp_path: Path, code: Path) -> None:
    digest = await stored(world, code)
    (tmp_path / "home").mkdir()
    elsewhere = Place(world, tmp_path / "elsewhere", HOME=str(tmp_path / "home"))

    await elsewhere.launch(PythonJob("tool:run", folder="parts", bundle=digest))
    run = await elsewhere.reaches(*ENDED)

    assert run.state == "COMPLETED", run.reason
    assert Path(run.log_path or "").read_text() == f"{tmp_path}/home bundled words\n"
    assert [each.name for each in (elsewhere.data_dir / "bundles").iterdir()] == [digest]


async def test_a_runner_killed_as_it_fetches_a_bundle_leaves_none_that_is_incomplete(
    world: World, tmp_path: Path, code: Path
) -> None:
    digest = await stored(world, code)
    place = Place(world, tmp_path / "data")
    bundles = place.data_dir / "bundles"

    async def fetching() -> bool:
        return bundles.is_dir() and any(bundles.iterdir())

    async with world.table_locked("bundle_chunks"):
        await place.launch(PythonJob("tool:run", folder="parts", bundle=digest))
        await eventually(fetching)
        (await place.runner()).kill()
    assert not (bundles / digest).exists()

    async def lost() -> bool:
        return bool(await place.run_monitor.check_runs())

    await eventually(lost)
    await place.launcher.run_once()
    again = await place.reaches(*ENDED, run="default.app.plain.1.1.r2")
    assert again.state == "COMPLETED", again.reason
    assert (bundles / digest / "big.bin").stat().st_size == 3_000_000


async def test_an_upload_killed_in_the_middle_leaves_nothing_and_is_repeated(world: World) -> None:
    upload = subprocess.Popen(
        [sys.executable, "-c", UPLOAD, world.dsn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert upload.stdout is not None
    assert await asyncio.to_thread(upload.stdout.readline) == "sent\n"
    upload.send_signal(signal.SIGKILL)
    upload.communicate()

    store = BundleStore(world.pool)
    now, digest = datetime.now(UTC), "a" * 64
    assert not await store.use("default", digest, now=now)
    assert await world.size("bundle_chunks") == 0
    assert await store.put("default", digest, [b"x"], size=1, files=1, now=now)
    assert b"".join([each async for each in store.read("default", digest)]) == b"x"


async def test_a_bundle_that_a_deployment_marks_as_used_meanwhile_is_kept(world: World) -> None:
    store = BundleStore(world.pool)
    old, now, digest = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC), "b" * 64
    await store.put("default", digest, [b"x"], size=1, files=1, now=old)
    connection = await asyncpg.connect(world.dsn)
    async with connection.transaction():
        await connection.execute("UPDATE bundles SET used_at = $1", now)
        removal = asyncio.create_task(store.remove_unused(before=now))

        await world.blocked()
    await connection.close()

    assert await removal == []
    assert await store.use("default", digest, now=now)
