"""Places that are no table, and a bucket that may not be used: each a clear reason."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsched.domain.errors import ConfigurationError, DecodeError, NotFoundError
from streamsched.ports.clock import SystemClock
from streamsched.spark.pfs import PartitionedFileSet
from streamsched.spark.tables.delta_source import DeltaSource
from streamsched.spark.tables.folder_source import Completeness, FolderSource
from streamsched.spark.tables.iceberg_source import IcebergSource
from tests.integration.tables.conftest import RecordingEmitter, emitted
from tests.integration.tables.object_storage import BUCKET, s3_server


@pytest.fixture(scope="module")
def denied() -> Iterator[dict[str, Any]]:
    """Options of an S3 server that checks credentials, for a user it does not know."""
    with s3_server() as options:
        url = options["endpoint_url"]
        check = urllib.request.Request(
            f"{url}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}, method="POST"
        )
        urllib.request.urlopen(check).close()
        yield options


def _object_store(options: dict[str, Any]) -> dict[str, str]:
    """The same options as `deltalake` has them."""
    return {
        "AWS_ACCESS_KEY_ID": options["key"],
        "AWS_SECRET_ACCESS_KEY": options["secret"],
        "AWS_ENDPOINT_URL": options["endpoint_url"],
        "AWS_REGION": "eu-west-1",
        "AWS_ALLOW_HTTP": "true",
    }


def _pyiceberg(options: dict[str, Any]) -> dict[str, str]:
    return {
        "s3.access-key-id": options["key"],
        "s3.secret-access-key": options["secret"],
        "s3.endpoint": options["endpoint_url"],
        "s3.region": "eu-west-1",
    }


USES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "file set": lambda options: PartitionedFileSet(
        "flights", f"s3://{BUCKET}/flights", emitter=RecordingEmitter(), storage_options=options
    ).partitions(),
    "folder": lambda options: emitted(
        FolderSource(f"s3://{BUCKET}/logs", Completeness(marker="_SUCCESS"), clock=SystemClock(), options=options)
    ),
    "delta": lambda options: emitted(DeltaSource(f"s3://{BUCKET}/flights", _object_store(options))),
    "iceberg": lambda options: emitted(IcebergSource(f"s3://{BUCKET}/flights", options=_pyiceberg(options))),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("use", USES)
def test_a_bucket_that_may_not_be_used_is_said(denied: dict[str, Any], use: str) -> None:
    with pytest.raises(ConfigurationError, match=f"access to s3://{BUCKET}/.* is denied"):
        USES[use](denied)


@pytest.mark.parametrize("place", ["missing", "empty", "parquet", "file"])
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_that_is_not_one_is_said(tmp_path: Path, form: str, place: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no table")
    (tmp_path / "parquet" / "day=1").mkdir(parents=True)
    (tmp_path / "parquet" / "day=1" / "part-0.parquet").write_bytes(b"PAR1")
    location = str(tmp_path / place)
    source = DeltaSource(location) if form == "delta" else IcebergSource(location)

    with pytest.raises((NotFoundError, ConfigurationError), match=location) as refused:
        emitted(source)

    assert "Traceback" not in str(refused.value)
    assert len(str(refused.value)) < 700


def test_a_damaged_log_is_said(tmp_path: Path) -> None:
    log = tmp_path / "flights" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text('{"metaData": {"id"')

    with pytest.raises((DecodeError, ConfigurationError), match="flights"):
        emitted(DeltaSource(str(tmp_path / "flights")))


def test_metadata_that_is_no_metadata_is_said(tmp_path: Path) -> None:
    (tmp_path / "flights" / "metadata").mkdir(parents=True)
    (tmp_path / "flights" / "metadata" / "version-hint.text").write_text("1")
    (tmp_path / "flights" / "metadata" / "v1.metadata.json").write_text('{"format-version": 2}')

    with pytest.raises(ConfigurationError, match="flights cannot be read as an Iceberg table"):
        emitted(IcebergSource(str(tmp_path / "flights")))
