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
from streamsched.emit import spooled_file
from streamsched.emit.claim import hold_claim
from streamsched.emit.spool import KEPT, Spool
from streamsched.ports.clock import SystemClock
from streamsched.testing.clock import SettableClock
from tests.support.spools import oldest

NOW = datetime(2013, 1, 1, tzinfo=UTC)


def event(name: str) -> Event:
    return Event(name, "test", NOW, CustomHappened(EventName("default", "e"), {"n": name}))


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", SystemClock())


def another(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", SystemClock())


def test_a_folder_that_is_not_there_is_empty(spool: Spool) -> None:
    assert spool.is_empty()
    with oldest(spool) as kept:
        assert kept is None


def test_what_was_kept_comes_back_in_order(spool: Spool) -> None:
    spool.keep([event("a"), event("b")])
    spool.keep([event("c")])

    with oldest(spool) as kept:
        assert kept is not None
        assert kept.events == (event("a"), event("b"), event("c"))
        spool.settle(kept, [], [])
    assert spool.is_empty()


def test_a_file_has_one_drainer_at_a_time(spool: Spool, tmp_path: Path) -> None:
    spool.keep([event("a")])

    with oldest(spool) as mine:
        assert mine is not None
        with oldest(another(tmp_path)) as theirs:
            assert theirs is None


def test_keeping_goes_on_in_a_new_file_while_the_old_one_is_drained(spool: Spool, tmp_path: Path) -> None:
    spool.keep([event("a")])

    with oldest(another(tmp_path)) as kept:
        assert kept is not None
        spool.keep([event("b")])
        another(tmp_path).settle(kept, [], [])

    with oldest(spool) as rest:
        assert rest is not None
        assert rest.events == (event("b"),)


def test_files_begun_within_one_millisecond_are_sent_in_the_order_they_were_begun(tmp_path: Path) -> None:
    spool = Spool(tmp_path, SettableClock(NOW))
    with ExitStack() as sending:
        for n in range(20):
            spool.keep([event(str(n))])
            for file in tmp_path.glob(f"*{KEPT}"):
                sending.enter_context(hold_claim(file))

    files = sorted(tmp_path.glob(f"*{KEPT}"))
    assert [orjson.loads(file.read_bytes())["id"] for file in files] == [str(n) for n in range(20)]


def test_what_is_left_of_a_file_stays_and_what_was_refused_lies_beside_it(spool: Spool, tmp_path: Path) -> None:
    spool.keep([event("a"), event("b"), event("c")])

    with oldest(spool) as kept:
        assert kept is not None
        spool.settle(kept, [event("c")], [Refusal(1, "$.data", "bad")])

    with oldest(spool) as rest:
        assert rest is not None
        assert rest.events == (event("c"),)
    (aside,) = (tmp_path / "spool").glob("*.refused")
    assert b'"reason":"bad"' in aside.read_bytes()


def test_a_torn_last_line_is_skipped_and_costs_no_other(spool: Spool, tmp_path: Path) -> None:
    spool.keep([event("a")])
    (path,) = (tmp_path / "spool").iterdir()
    with path.open("ab") as file:
        file.write(b'{"id":"b","source":"te')

    with oldest(spool) as kept:
        assert kept is not None
        assert kept.events == (event("a"),)
        assert kept.unreadable == ()


def test_a_line_that_is_no_event_is_set_aside_with_its_reason(spool: Spool, tmp_path: Path) -> None:
    spool.keep([event("a")])
    (path,) = (tmp_path / "spool").iterdir()
    path.write_bytes(b"garbage\n" + path.read_bytes())

    with oldest(spool) as kept:
        assert kept is not None
        assert kept.events == (event("a"),)
        spool.settle(kept, [], [])
    (aside,) = (tmp_path / "spool").glob("*.refused")
    assert b"garbage" in aside.read_bytes()
    assert spool.is_empty()


KILLED = """
import os, signal, sys
from pathlib import Path
from streamsched.emit.claim import hold_claim
from streamsched.emit.spool import KEPT, Spool
from streamsched.emit import custom
from streamsched.emit.draft import complete_event
from streamsched.ports.clock import SystemClock
from streamsched.testing.clock import SettableClock
from datetime import UTC, datetime
spool = Spool(Path(sys.argv[1]), SystemClock())
spool.keep([complete_event(custom("e", event_id="kept"), source="s", now=datetime(2013, 1, 1, tzinfo=UTC))])
if sys.argv[2] == "draining":
    for kept in spool.claims():
        os.kill(os.getpid(), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["kept", "draining"])
def test_a_killed_process_leaves_its_events_and_no_claim(tmp_path: Path, moment: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "spool"), moment], check=False)
    assert killed.returncode == -signal.SIGKILL

    with oldest(another(tmp_path)) as kept:
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

    with oldest(spool) as kept:
        assert kept is not None
        assert kept.events == (event("a"),)


def test_a_large_file_is_read_in_pieces_and_none_is_lost(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled_file, "_PIECE", 300)
    spool.keep([event(str(n)) for n in range(20)])

    got: list[str] = []
    pieces = 0
    for kept in spool.claims():
        pieces += 1
        got += [each.id for each in kept.events]
        spool.settle(kept, [], [])
    assert got == [str(n) for n in range(20)]
    assert pieces > 5
    assert spool.is_empty()


def test_the_rest_of_a_large_file_stays_behind_what_could_not_be_sent(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled_file, "_PIECE", 300)
    spool.keep([event(str(n)) for n in range(9)])
    with oldest(spool) as kept:
        assert kept is not None
        assert kept.more
        spool.settle(kept, kept.events[1:], [])
    assert spool.has_of({"anything at all"})  # the rest is not read yet
    monkeypatch.undo()
    with oldest(spool) as kept:
        assert kept is not None
        assert [each.id for each in kept.events] == [str(n) for n in range(1, 9)]


def test_what_is_no_regular_file_of_its_owner_is_set_aside_unread(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"password\n")
    folder = tmp_path / "spool"
    spool = Spool(folder, SystemClock(), owner=os.getuid())
    spool.keep([event("a")])
    (folder / "0-link.events").symlink_to(secret)
    os.link(secret, folder / "0-second-name.events")
    os.mkfifo(folder / "0-pipe.events")
    (folder / "0-folder.events").mkdir()
    with (folder / "0-huge.events").open("wb") as file:
        file.truncate(1 << 40)

    sent: list[str] = []
    unfit: dict[str, str] = {}
    for kept in spool.claims():
        sent += [each.id for each in kept.events]
        if kept.unfit:
            unfit[kept.path.name] = kept.unfit
        spool.settle(kept, [], [])

    assert sent == ["a"]
    assert sorted(unfit) == [f"0-{name}.events" for name in ("folder", "huge", "link", "pipe", "second-name")]
    assert spool.is_empty()
    assert len(list(folder.glob("*.refused"))) == 5
    assert secret.read_bytes() == b"password\n"


def test_refused_lines_are_not_written_through_a_link(spool: Spool, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"")
    spool.keep([event("a")])
    (path,) = (tmp_path / "spool").iterdir()
    path.with_name(path.name + ".refused").symlink_to(target)
    with oldest(spool) as kept:
        assert kept is not None
        spool.settle(kept, [], [Refusal(0, "$", "bad")])
    assert target.read_bytes() == b""
    (written,) = (each for each in (tmp_path / "spool").iterdir() if not each.is_symlink())
    assert b'"reason":"bad"' in written.read_bytes()


def test_a_line_without_end_is_set_aside_with_its_file(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooled_file, "_PIECE", 100)
    monkeypatch.setattr(spooled_file, "_LONGEST_LINE", 1000)
    spool.keep([event("a")])
    (path,) = spool.folder.iterdir()
    path.write_bytes(b"x" * 2000 + b"\n")
    with oldest(spool) as kept:
        assert kept is not None
        assert "has a line of more than 1000 bytes" in kept.unfit
        spool.settle(kept, [], [])
    assert spool.is_empty()
