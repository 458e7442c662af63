"""Appends a day of readings to the table, as one commit, with `pyiceberg`. It knows nothing of schedules.

ICEBERG_DATA=/data/iceberg python land.py 2026-01-01
"""

import argparse
from datetime import date

import pyarrow as pa
from catalog import DATA, TABLE, properties
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import IdentityTransform

STATIONS = ("JFK", "LGA", "EWR")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("days", type=date.fromisoformat, nargs="+")
    days = parser.parse_args().days

    DATA.mkdir(parents=True, exist_ok=True)
    catalog = load_catalog("lake", **properties(DATA))
    for day in days:
        rows = pa.Table.from_pylist(
            [
                {"day": day.isoformat(), "station": station, "hour": hour, "celsius": 0.5 * hour + number}
                for number, station in enumerate(STATIONS)
                for hour in range(24)
            ]
        )
        catalog.create_namespace_if_not_exists("weather")
        if not catalog.table_exists(TABLE):
            with catalog.create_table(TABLE, schema=rows.schema).update_spec() as spec:
                spec.add_field("day", IdentityTransform(), "day")
        catalog.load_table(TABLE).append(rows)
        print(f"{TABLE}: day={day}, {len(rows)} rows", flush=True)


if __name__ == "__main__":
    main()
