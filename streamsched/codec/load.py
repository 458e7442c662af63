"""Load of clusters as JSON: the LOAD constraint, and what a probe read.

    {"type": "LOAD", "cluster": "main", "freeCores": {"enter": 8, "leave": 4}, "freeMemory": 16000000000, "running": 5,
     "startsPerReading": 1, "waitUntilMet": true}

A measure is a number, or an object where the gate shuts elsewhere than it opens. Memory is in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamsched.codec.reading import Fields, anchored
from streamsched.domain.load import Band, Load, Reading


def to_json(load: Load) -> dict[str, Any]:
    """The canonical JSON of a LOAD constraint."""
    measures = {"freeCores": load.free_cores, "freeMemory": load.free_memory, "running": load.running}
    return {
        "type": "LOAD",
        "cluster": load.cluster,
        **{name: {"enter": band.enter, "leave": band.leave} for name, band in measures.items() if band is not None},
        "startsPerReading": load.starts,
        "waitUntilMet": load.wait,
    }


def read(fields: Fields) -> Load:
    """Reads what `to_json` wrote, and what people write.

    Raises:
        DecodeError: a field is missing or of the wrong kind; the path names it.
        InvalidDefinitionError: the constraint contradicts itself.
    """
    cluster = fields.text("cluster")
    cores, memory, running = (_band(fields, name) for name in ("freeCores", "freeMemory", "running"))
    starts, wait = fields.optional_integer("startsPerReading", minimum=1), fields.optional_boolean("waitUntilMet")
    with anchored(fields.path, free_cores="freeCores", free_memory="freeMemory", starts="startsPerReading"):
        return Load(cluster, cores, memory, running, 1 if starts is None else starts, wait=wait is not False)


def reading_to_json(reading: Reading) -> dict[str, Any]:
    """What a probe read."""
    return {"freeCores": reading.free_cores, "freeMemory": reading.free_memory, "running": reading.running}


def reading_from_json(said: Mapping[str, Any]) -> Reading:
    """Reads what `reading_to_json` wrote."""
    return Reading(said.get("freeCores"), said.get("freeMemory"), said.get("running"))


def _band(fields: Fields, name: str) -> Band | None:
    if isinstance(fields.optional(name), Mapping):
        inner = fields.object(name)
        band = Band(inner.integer("enter", minimum=0), inner.integer("leave", minimum=0))
        inner.done()
        return band
    amount = fields.optional_integer(name, minimum=0)
    return None if amount is None else Band(amount, amount)
