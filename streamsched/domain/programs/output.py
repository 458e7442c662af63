"""The datasets that a program writes, as its owner declares them (ADR 23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.jobs.run_commit import MOST_PARTITIONS
from streamsched.domain.limits import check_most
from streamsched.domain.names import DatasetRef

#: Outputs of one program.
MOST_OUTPUTS: Final = 100
#: Most characters of one location.
_LONGEST: Final = 1000
#: What is known about later commits of a run that was given up, before anything was fenced.
UNFENCED: Final = "may still commit: its outputs are not fenced yet"
UNDECLARED: Final = "may still commit: its program declares no outputs, so they cannot be fenced"
#: Outputs that a text names.
_SHOWN: Final = 5


class OutputFormat(StrEnum):
    """How a dataset is stored. FILES: a partitioned file set. ICEBERG: its location is `catalog.namespace.table`."""

    FILES = "files"
    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """A dataset that a program writes.

    Attributes:
        location: an absolute path or a URL; of Iceberg the table's name, with its catalog first; "" is not known: then
            an attempt that was given up cannot be fenced there.
    """

    dataset: DatasetRef
    format: OutputFormat = OutputFormat.FILES
    location: str = ""

    def __post_init__(self) -> None:
        if len(self.location) > _LONGEST or not self.location.isprintable():
            raise InvalidDefinitionError("$.location", f"must be printable and have at most {_LONGEST} characters")
        if self.format is OutputFormat.ICEBERG:
            good, form = self.location.count(".") >= 2 and "/" not in self.location, "catalog.namespace.table"
        else:
            good, form = self.location.startswith("/") or "://" in self.location, "an absolute path or a URL"
        if self.location and not good:
            raise InvalidDefinitionError("$.location", f"must be {form} but is '{self.location}'")


def check_outputs(outputs: tuple[ProgramOutput, ...], namespace: str, *, done_when_committed: bool) -> None:
    """Checks the outputs of a program in this namespace.

    Raises:
        InvalidDefinitionError: too many, one twice, one of another namespace, or none to be committed.
    """
    check_most(len(outputs), MOST_OUTPUTS, "$.outputs", "outputs")
    known: set[DatasetRef] = set()
    for index, each in enumerate(outputs):
        if each.dataset.namespace != namespace:
            raise InvalidDefinitionError(
                f"$.outputs[{index}]", f"is {each.dataset}, but a program's outputs are of its namespace, {namespace}"
            )
        if each.dataset in known:
            raise InvalidDefinitionError(f"$.outputs[{index}]", f"is {each.dataset} a second time")
        known.add(each.dataset)
    if done_when_committed and not outputs:
        raise InvalidDefinitionError("$.done_when_committed", "needs outputs: with none, nothing is ever committed")


def fence_text(found: Mapping[str, str]) -> str:
    """What is known about later commits of a run that was given up. `found`: for each output why it is not fenced, ""
    when it is.
    """
    left = [f"{dataset} ({why})" for dataset, why in found.items() if why]
    if not left:
        return f"commits no more to {', '.join(found)}"
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    return f"may still commit to {', '.join(left[:_SHOWN])}{more}"


def find_uncommitted(outputs: Iterable[ProgramOutput], announced: Iterable[tuple[str, int]]) -> list[str]:
    """The datasets among outputs without a commit that is known to be announced in full. `announced`: the dataset of
    each event, and how many partitions it has.
    """
    committed = {dataset for dataset, partitions in announced if partitions < MOST_PARTITIONS}
    return [str(each.dataset) for each in outputs if str(each.dataset) not in committed]
