"""Texts of tokens, and the audit's hash chain."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.access.audit import ORIGIN, AuditEntry, AuditHead, Intact, Tampered, against_head, verify
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.token import (
    RunTokenText,
    StoredTokenText,
    TokenRecord,
    digest_of,
    read_token,
    run_token_text,
    secret_text,
    stored_token_text,
)

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=6, max_size=6))
def test_a_stored_token_is_read_back(random: bytes, name: bytes) -> None:
    secret = secret_text(random)
    found = read_token(stored_token_text(name.hex(), secret))
    assert found == StoredTokenText(name.hex(), digest_of(secret))


@given(
    st.from_regex(r"[a-z0-9_]{1,20}(\.[A-Za-z0-9_-]{1,30}){2,6}\.r[0-9]{1,3}", fullmatch=True),
    st.binary(min_size=32, max_size=32),
)
def test_the_token_of_a_run_is_signed(run: str, key: bytes) -> None:
    found = read_token(run_token_text(run, key))
    assert isinstance(found, RunTokenText)
    assert found.run == run
    assert found.is_signed_by(key)
    assert not found.is_signed_by(bytes(32) if key != bytes(32) else b"\1" * 32)
    assert not replace(found, run=run + "0").is_signed_by(key)


@given(st.text(max_size=3000))
def test_any_other_text_is_no_token(text: str) -> None:
    found = read_token(text)
    assert found is None or text.startswith(("sst_", "ssr_"))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, ""),
        ({"expires_at": NOW + timedelta(seconds=1)}, ""),
        ({"expires_at": NOW}, "expired"),
        ({"revoked_at": NOW}, "revoked"),
        ({"revoked_at": NOW + timedelta(seconds=1)}, ""),
    ],
)
def test_when_a_token_is_invalid(more: dict[str, Any], why: str) -> None:
    record = TokenRecord(
        id="0" * 12, name="ci", grants=(Grant(role=AccessRole.VIEWER),), created_at=NOW, created_by="x", **more
    )
    assert why in record.refusal_reason(NOW)
    assert bool(why) == bool(record.refusal_reason(NOW))


texts = st.text(max_size=40)
details = st.dictionaries(texts, st.integers(-(2**60), 2**60) | texts, max_size=4)


def chain(parts: list[tuple[str, str, dict[str, object]]]) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    for number, (caller, target, detail) in enumerate(parts, 1):
        previous = found[-1].hash if found else ORIGIN
        found.append(
            AuditEntry(
                number=number,
                at=NOW + timedelta(seconds=number),
                caller=caller,
                action="PUT /x",
                target=target,
                detail=detail,
                previous=previous,
            ).with_hash()
        )
    return found


@given(st.lists(st.tuples(texts, texts, details), min_size=1, max_size=8), st.data())
def test_every_alteration_is_found(parts: list[tuple[str, str, dict[str, object]]], data: st.DataObject) -> None:
    entries = chain(parts)
    assert verify(entries) == Intact(len(entries), entries[-1].hash)
    cut = data.draw(st.integers(0, len(entries)))
    first = verify(entries[:cut])
    assert isinstance(first, Intact)
    assert verify(entries[cut:], first) == verify(entries)
    place = data.draw(st.integers(0, len(entries) - 1))
    entry = entries[place]
    altered = data.draw(
        st.sampled_from(
            [
                entry._replace(caller=entry.caller + "x"),
                entry._replace(target=entry.target + "x"),
                entry._replace(at=entry.at + timedelta(microseconds=1)),
                entry._replace(detail={**entry.detail, "status": "x"}),
                entry._replace(caller=entry.caller + "x").with_hash(),
            ]
        )
    )
    verdict = verify([*entries[:place], altered, *entries[place + 1 :]])
    if altered.hash == altered.digest() and place == len(entries) - 1:
        # Who may write the last entry anew can forge it; its former hash, kept elsewhere, shows it.
        assert isinstance(verdict, Intact)
        assert verdict.last != entries[-1].hash
    else:
        assert isinstance(verdict, Tampered)
    if place < len(entries) - 1:
        assert isinstance(verify(entries[:place] + entries[place + 1 :]), Tampered)


@given(st.lists(st.tuples(texts, texts, details), min_size=1, max_size=8), st.data())
def test_entries_that_are_missing_at_the_end_are_found_by_the_head(
    parts: list[tuple[str, str, dict[str, object]]], data: st.DataObject
) -> None:
    entries = chain(parts)
    head = AuditHead(len(entries), entries[-1].hash)
    left = data.draw(st.integers(0, len(entries) - 1))
    found, whole = verify(entries[:left]), verify(entries)
    assert isinstance(found, Intact)
    assert isinstance(whole, Intact)
    which = f"entries {left + 1} to {len(entries)}" if left else f"all {len(entries)} entries"
    assert against_head(found, head, b"") == Tampered(left + 1, f"{which} were removed")
    assert against_head(whole, head, entries[-1].hash) == whole
    assert isinstance(against_head(whole, head._replace(hash=ORIGIN), entries[-1].hash), Tampered)
    assert isinstance(against_head(whole, None, b""), Tampered)
    assert against_head(Intact(0, ORIGIN), AuditHead(0, ORIGIN), b"") == Intact(0, ORIGIN)
