"""What a worker keeps for each schedule takes as much memory as it has bytes."""

from __future__ import annotations

import tracemalloc

from streamsched.codec.events import native


def test_kept_bytes_do_not_keep_the_buffer_they_were_written_in() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [native.dumps({"listeners": {f"default.app.s{n}": 1}}) for n in range(1000)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 4 * sum(map(len, kept)) + 10_000
