"""What can go wrong with a local cluster."""

from __future__ import annotations


class NotStartedError(Exception):
    """A part did not start or is not healthy in time; the message says which, and where its log is."""


class DriveFailedError(Exception):
    """The acceptance drive found something that is not as it must be."""
