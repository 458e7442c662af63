"""Instants as text for messages."""

from __future__ import annotations

from datetime import datetime


def clock(instant: datetime) -> str:
    """`2013-01-08 12:00:00Z`, of an instant in UTC; for use within a sentence."""
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"
