"""Settings of OpenLineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.names import DatasetRef
from streamsched.setting_values import SettingGroup, setting


def _locations(text: str) -> dict[str, DatasetRef]:
    """The dataset of each location; a path is `file` and the path, as in OpenLineage."""
    found: dict[str, DatasetRef] = {}
    for each in filter(None, (each.strip() for each in text.split(","))):
        location, _, name = (part.strip() for part in each.rpartition("="))
        try:
            dataset = DatasetRef.parse(name)
        except InvalidError as exc:
            raise InvalidError("$", f"'{each}': {exc.reason}") from exc
        if not location:
            raise InvalidDefinitionError("$", f"must be location=dataset,location=dataset: '{each}'")
        location = location.rstrip("/")
        found[f"file{location}" if location.startswith("/") else location] = dataset
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageSettings(SettingGroup):
    """Events of OpenLineage.

    Attributes:
        datasets: datasets of locations that OpenLineage events name: comma-separated `location=dataset`, such
            as `s3://lake/flights=default.flights` or `/data/logs=default.logs`.
    """

    VARIABLES: ClassVar[str] = "lineage_"

    datasets: Mapping[str, DatasetRef] = setting("", _locations)
