"""`python -m streamsched.spark.fences.write_fences`: fences the earlier attempts of a job in some datasets.

It runs as a run of the program would, with its user, environment and secrets, but without Spark. `STREAMSCHED_FENCE` is
`{"job", "attempt", "outputs": […]}`; it prints for each, on a line of its own, `{dataset: why it is not fenced or ""}`.
Several at a time: a store that hangs holds up no other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Final, assert_never

import orjson

from streamsched.codec.schedules.output import output_from_json
from streamsched.domain.errors import StreamschedError
from streamsched.domain.programs.output import OutputFormat, ProgramOutput
from streamsched.spark.writes.write import Author

ORDER: Final = "STREAMSCHED_FENCE"
_AT_ONCE: Final = 16
#: Most characters of one reason.
LONGEST: Final = 300


def fence(output: ProgramOutput, author: Author) -> str:
    """Fences the attempts before this author's there; why that failed, "" when it did not."""
    if not output.location:
        return "its place is not declared"
    try:
        match output.format:
            case OutputFormat.FILES:
                from streamsched.spark.pfs import PartitionedFileSet  # noqa: PLC0415 (each needs its own extra)

                PartitionedFileSet(output.dataset, output.location).fence(author)
            case OutputFormat.DELTA:
                from streamsched.spark.tables.delta import DeltaDataset  # noqa: PLC0415

                DeltaDataset(output.dataset, output.location).fence(author)
            case OutputFormat.ICEBERG:
                from streamsched.spark.tables.iceberg import IcebergDataset  # noqa: PLC0415

                catalog, _, table = output.location.partition(".")
                IcebergDataset(output.dataset, table, catalog=catalog).fence(author)
            case _:
                assert_never(output.format)
    except StreamschedError as exc:
        return str(exc)
    except Exception as exc:  # noqa: BLE001 - a library of a store may raise anything; the next dataset is fenced
        return f"{type(exc).__name__}: {exc}"
    return ""


def main(environ: Mapping[str, str]) -> None:
    """Raises:
    KeyError, DecodeError: the order is malformed.
    """
    order: dict[str, Any] = orjson.loads(environ[ORDER])
    author = Author(order["job"], order["attempt"])
    outputs = [output_from_json(each, "$") for each in order["outputs"]]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        fences = {threads.submit(fence, each, author): str(each.dataset) for each in outputs}
        for done in as_completed(fences):
            line = orjson.dumps({fences[done]: done.result()[:LONGEST]}).decode()
            sys.stdout.write(f"\n{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(os.environ)
