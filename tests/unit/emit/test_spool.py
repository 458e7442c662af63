"""The spool on a real disk: nothing kept is lost, whatever dies when."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from streamsched.domain.errors import Refusal
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName
from streamsched.emit.claim import claimed
from streamsched.emit.spool import KEPT, Spool
from streamsched.ports.clock import SystemClock
from streamsched.testing.clock import SettableClock

NOW = datetime(2013, 1, 1, tzinfo=UTC)


def event(name: str) -> Event:
    return Event(name, "test", NOW, CustomHappened(EventName("default", "e"), {"n": name}))


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", SystemClock())


def another(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", SystemClock())


def test_a_folder_that_is_not_there_is_empty(spool: Spool) -> None:
    assert spool.empty()
    with spool.oldest() as kept:
        assert kept is None


def test_what_was_kept_comes_back_in_order(spool: Spool) -> None:
    spool.keep([event("a"), event("b")])
    spool.keep([event("c")])

    with spool.oldest() as kept:
        assert kept is not None
        assert kept.events == (event("a"), event("b"), event("c"))
        spool.settle(kept, [], [])
    assert spool.empty()


def test_a_file_has_one_drainer_at_a_time(spool: Spool, tmp_path: Path) -> None:
    spool.keep([event("a")])

    with spool.oldest() as mine:
        assert mine is not None
        with another(tmp_path).oldest() as theirs:
            assert theirs is None


def test_keeping_goes_on_in_a_new_file_while_the_old_one_is_drained(spool: Spool, tmp_path: Path) -> None:
    spool.keep([event("a")])

    with another(tmp_path).oldest() as kept:
        assert kept is not None
        spool.keep([event("b")])
        another(tmp_path).settle(kept, [], [])

    with spool.oldest() as rest:
        assert rest is not None
        assert rest.events == (event("b"),)


def test_files_begun_within_one_millisecond_are_sent_in_the_order_they_were_begun(tmp_path: Path) -> None:
    spool = Spool(tmp_path, SettableClock(NOW))
    with ExitStack() as sending:
        for n in range(20):
            spool.keep([event(str(n))])
            for file in tmp_path.glob(f"*{KEPT}"):
                sending.enter_context(claimed(file))

    files = sorted(tmp_path.glob(f"*{KEPT}"))
    assert [orjson.loads(file.read_bytes())["id"] for file in files] == [str(n) for n in range(20)]


def test_what_is_left_of_a_file_stays_and_what_was_refused_lies_beside_it(spool: Spool, tmp_path: Path) -> None:
    spool.keep([event("a"), event("b"), event("c")])

    with spool.oldest() as kept:
        assert kept is not None
        spool.settle(kept, [event("c")], [Refusal(1, "$.data", "bad")])

    with spool.oldest() as rest:
        assert rest is not None
        assert rest.events == (event("c"),)
    (aside,) = (tmp_path / "spool").glob("*.refused")
    assert b'"reason":"bad"' in aside.read_bytes()


def test_a_torn_last_line_is_skipped_and_costs_no_other(spool: Spool, tmp_path: Path) -> None:
    spool.keep([event("a")])
    (path,) = (tmp_path / "spool").iterdir()
    with path.open("ab") as file:
        file.write(b'{"id":"b","source":"te')

    with spool.oldest() as kept:
        assert kept is not None
        assert kept.events == (event("a"),)
        assert kept.unreadable == ()


def test_a_line_that_is_no_event_is_set_aside_with_its_reason(spool: Spool, tmp_path: Path) -> None:
    spool.keep([event("a")])
    (path,) = (tmp_path / "spool").iterdir()
    path.write_bytes(b"garbage\n" + path.read_bytes())

    with spool.oldest() as kept:
        assert kept is not None
        assert kept.events == (event("a"),)
        spool.settle(kept, [], [])
    (aside,) = (tmp_path / "spool").glob("*.refused")
    assert b"garbage" in aside.read_bytes()
    assert spool.empty()


KILLED = """
import os, signal, sys
from pathlib import Path
from streamsched.emit.claim import claimed
from streamsched.emit.spool import KEPT, Spool
from streamsched.emit import custom
from streamsched.emit.draft import stamped
from streamsched.ports.clock import SystemClock
from streamsched.testing.clock import SettableClock
from datetime import UTC, datetime
spool = Spool(Path(sys.argv[1]), SystemClock())
spool.keep([stamped(custom("e", event_id="kept"), source="s", now=datetime(2013, 1, 1, tzinfo=UTC))])
if sys.argv[2] == "draining":
    with spool.oldest() as kept:
        os.kill(os.getpid(), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["kept", "draining"])
def test_a_killed_process_leaves_its_events_and_no_claim(tmp_path: Path, moment: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "spool"), moment], check=False)
    assert killed.returncode == -signal.SIGKILL

    with another(tmp_path).oldest() as kept:
        assert kept is not None
        assert [each.id for each in kept.events] == ["kept"]


def test_a_disk_that_refuses_keeps_none_of_the_events(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.keep([event("a")])
    write = os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space"):
        spool.keep([event("b")])
    monkeypatch.undo()

    with spool.oldest() as kept:
        assert kept is not None
        assert kept.events == (event("a"),)
