"""A week of downtime, small; large: `python -m tests.faults.tasks.downtime --overdue 200000`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.sites.installation_site import site
from tests.faults.tasks.downtime import run


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_what_was_due_during_a_week_is_delivered_in_order_and_new_lanes_take_their_turn(tmp_path: Path) -> None:
    with site(tmp_path, "postgres") as there:
        line, well = asyncio.run(run(there, overdue=6000, owners=2))

    assert well, line
