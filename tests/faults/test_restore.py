"""A backup restored beside a newer log loses nothing; again with other seeds: `make restore SEED=s`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.restore import restore_site, run
from tests.support.services import need_kafka_jars


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_what_came_after_the_backup_is_replayed_from_the_log(tmp_path: Path) -> None:
    need_kafka_jars()
    with restore_site(tmp_path) as site:
        verdict = asyncio.run(run(site, seed=1))

    assert verdict.well, [verdict.line(), *verdict.wrong]
    assert verdict.before > 0
    assert verdict.after > 0
    assert verdict.repeated > 0, "the backup knew all of it: the drill shows nothing"
