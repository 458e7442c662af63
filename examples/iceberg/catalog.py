"""Where the catalog and the table are: below `ICEBERG_DATA`. For a REST catalog only the properties are others."""

import os
from pathlib import Path

DATA = Path(os.environ.get("ICEBERG_DATA", "iceberg-data")).resolve()
TABLE = "weather.readings"


def properties(data: Path) -> dict[str, str]:
    """Of a catalog in an SQLite file."""
    return {"type": "sql", "uri": f"sqlite:///{data}/catalog.db", "warehouse": f"file://{data}/lake"}
