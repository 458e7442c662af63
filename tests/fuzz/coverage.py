"""Coverage-guided fuzzing of what decodes bytes from outside, by Atheris.

    python -m tests.fuzz.coverage CORPUS --seconds 300

Any bytes must give an event that survives encoding, or a `DecodeError` with a path and a reason. Bytes that reached new
code are kept in the folder `CORPUS`, which `tests.fuzz.events` mutates further. Bytes that break a rule are written to
`CORPUS/crash-*`, and the process ends with the traceback and another code than 0.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import atheris
from atheris.import_hook import instrument_imports

with instrument_imports(include=["streamsched.codec", "streamsched.domain"]):
    from streamsched.codec import event as event_codec
    from streamsched.codec.events import cloudevents, fast_path
    from streamsched.codec.records import signal as signal_codec
    from streamsched.domain.errors import DecodeError, InvalidError

from tests.fuzz.mutations import LARGEST, TOKENS, Mutations

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def decode(raw: bytes) -> None:
    """Decodes bytes in every way in which they can arrive.

    Raises:
        AssertionError: a refusal has no path or reason, or an event does not survive encoding.
    """
    try:
        event = event_codec.decode(raw, fallback_id="fallback", fallback_time=_NOW)
    except DecodeError as error:
        _check(error)
    else:
        again = event_codec.decode(event_codec.encode(event), fallback_id="another", fallback_time=_NOW)
        assert again == event, (event, again)
    try:
        for found in event_codec.decode_batch(raw, fallback_id="fallback", fallback_time=_NOW):
            if isinstance(found, DecodeError):
                _check(found)
    except DecodeError as error:
        _check(error)
    head, _, body = raw.partition(b"\n\n")
    parts = (line.partition(":") for line in head.decode("latin-1").split("\n"))
    headers = {name: value for name, _, value in parts}
    try:
        cloudevents.decode_binary({"ce-specversion": "1.0", **headers}, body, fallback_time=_NOW)
    except DecodeError as error:
        _check(error)
    fast_path.read_occurred(raw)
    try:
        signal_codec.decode(b"event:default.heard", raw)
    except InvalidError as error:
        _check(error)


def _check(error: InvalidError) -> None:
    assert error.path.startswith("$"), error.path
    assert error.reason


def _escaped(token: bytes) -> str:
    """As libFuzzer's dictionaries have it."""
    return "".join(rf"\x{byte:02x}" for byte in token)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    asked.corpus.mkdir(parents=True, exist_ok=True)
    for number, raw in enumerate(Mutations(asked.seed).seeds):
        (asked.corpus / f"seed-{number}").write_bytes(raw)
    words = asked.corpus.with_suffix(".dict")
    words.write_text("".join(f'"{_escaped(token)}"\n' for token in TOKENS))
    options = (f"-max_total_time={asked.seconds}", f"-seed={asked.seed}", f"-max_len={LARGEST}", f"-dict={words}")
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={asked.corpus}/", str(asked.corpus)], decode)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
