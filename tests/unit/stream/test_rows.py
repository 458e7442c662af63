"""Rows in memory are what was put, and long ones that are rarely read take little."""

from __future__ import annotations

import sys

from streamsched.stream.rows import MemoryRows

PAGE = b'{"first":0,"events":[%b]}' % b",".join(b'{"id":"e%d","type":"custom"}' % n for n in range(200))


def test_rows_are_what_was_put() -> None:
    rows = MemoryRows()
    rows.put(b"page", PAGE, cold=True)
    rows.put(b"short", b"{}", cold=True)
    rows.put(b"often", PAGE, cold=False)
    rows[b"set"] = PAGE
    assert dict(rows) == {b"page": PAGE, b"short": b"{}", b"often": PAGE, b"set": PAGE}
    assert list(rows.values()) == [PAGE, b"{}", PAGE, PAGE]
    assert (rows.get(b"page"), rows.get(b"none"), b"page" in rows, len(rows)) == (PAGE, None, True, 4)

    rows.put(b"page", b"now", cold=True)
    del rows[b"often"]
    assert rows.pop(b"none", None) is None
    assert dict(rows) == {b"page": b"now", b"short": b"{}", b"set": PAGE}
    rows.clear()
    assert not rows


def test_a_cold_row_takes_a_fraction_of_its_length() -> None:
    rows = MemoryRows()
    rows.put(b"page", PAGE, cold=True)
    (held,) = rows._rows.values()
    assert sys.getsizeof(held) < len(PAGE) / 4
