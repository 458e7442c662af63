"""As much of a Spark frame as `PartitionedFileSet.write` uses: rows by their partition, written by Arrow."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq


class ArrowFrame:
    """A file for each partition key, such as `day=1`, with so many rows."""

    def __init__(self, rows: Mapping[str, int], options: Mapping[str, Any] | None = None) -> None:
        self._rows = dict(rows)
        self._options = dict(options or {})

    @property
    def schema(self) -> ArrowFrame:
        return self

    @property
    def write(self) -> ArrowFrame:
        return self

    def json(self) -> str:
        return '{"type":"struct","fields":[]}'

    def partitionBy(self, *_: str) -> ArrowFrame:  # noqa: N802 - Spark's name
        return self

    def parquet(self, uri: str) -> None:
        filesystem, root = fsspec.core.url_to_fs(uri.replace("s3a://", "s3://", 1), **self._options)
        for key, rows in self._rows.items():
            content = io.BytesIO()
            pq.write_table(pa.table({"n": list(range(rows))}), content)
            if "file" in filesystem.protocol:
                filesystem.makedirs(f"{root}/{key}", exist_ok=True)
            filesystem.pipe_file(f"{root}/{key}/part-0.parquet", content.getvalue())
