"""Load of clusters as JSON: the LOAD constraint, and readings of probes.

    {"type": "LOAD", "cluster": "main", "freeCores": {"enter": 8, "leave": 4}, "freeMemory": 16000000000, "running": 5,
     "startsPerReading": 1, "waitUntilMet": true}

A measure is a number, or an object with different thresholds for opening and closing the gate. Memory is in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.domain.constraints.load import ClusterReading, Hysteresis, Load


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
    """Decodes a LOAD constraint.

    Raises:
        DecodeError: a field is missing or of the wrong kind; the path names it.
        InvalidDefinitionError: the constraint contradicts itself.
    """
    cluster = fields.text("cluster")
    cores, memory, running = (_band(fields, name) for name in ("freeCores", "freeMemory", "running"))
    starts, wait = fields.optional_integer("startsPerReading", minimum=1), fields.optional_boolean("waitUntilMet")
    with prefix_errors(fields.path, free_cores="freeCores", free_memory="freeMemory", starts="startsPerReading"):
        return Load(cluster, cores, memory, running, 1 if starts is None else starts, wait=wait is not False)


def reading_to_json(reading: ClusterReading) -> dict[str, Any]:
    """The JSON of a reading."""
    return {"freeCores": reading.free_cores, "freeMemory": reading.free_memory, "running": reading.running}


def reading_from_json(obj: Mapping[str, Any]) -> ClusterReading:
    """Decodes the output of `reading_to_json`."""
    return ClusterReading(obj.get("freeCores"), obj.get("freeMemory"), obj.get("running"))


def _band(fields: Fields, name: str) -> Hysteresis | None:
    if isinstance(fields.optional_value(name), Mapping):
        inner = fields.object(name)
        enter, leave = inner.integer("enter", minimum=0), inner.integer("leave", minimum=0)
        inner.check_all_read()
        with prefix_errors(inner.path):
            return Hysteresis(enter, leave)
    amount = fields.optional_integer(name, minimum=0)
    with prefix_errors(fields.path_of(name), enter="", leave=""):
        return None if amount is None else Hysteresis(amount, amount)
