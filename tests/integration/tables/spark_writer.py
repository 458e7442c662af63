"""Writes a Delta and an Iceberg table with one real Spark, one commit of each kind, and writes what each did.

    python spark_writer.py <conf as JSON> <warehouse>

The tables are `<warehouse>/<form>/flights`, and what was done is in `<warehouse>/<form>.jsonl`, a line for each
commit: {"what", "version", "added": {partition key: rows} or null}. `added` is what a reader must get, null for a
commit without new data.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

conf, warehouse = json.loads(sys.argv[1]), Path(sys.argv[2])
builder: Any = SparkSession.builder.master("local[1]").appName("tables")
for name, value in {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    **conf,
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
COPY_ON_WRITE = "'write.delete.mode'='copy-on-write', 'write.merge.mode'='copy-on-write', 'format-version'='2'"


def rows(*days: int, many: int = 3) -> Any:
    return spark.createDataFrame([(f"2026-01-0{day}", n) for day in days for n in range(many)], "day string, n int")


def write(form: str) -> None:
    place, said = str(warehouse / form / "flights"), warehouse / f"{form}.jsonl"
    table = f"delta.`{place}`" if form == "delta" else "lake.iceberg.flights"

    def version() -> int:
        if form == "delta":
            return int(spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()["version"])  # type: ignore[index]
        return int(spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").first()[0])  # type: ignore[index]

    def did(what: str, added: dict[str, int] | None) -> None:
        with said.open("a") as file:
            file.write(json.dumps({"what": what, "version": version(), "added": added}) + "\n")

    def append(*days: int, many: int = 3) -> None:
        made = rows(*days, many=many)
        if form == "delta":
            made.coalesce(1).write.format("delta").mode("append").save(place)
        else:
            made.sortWithinPartitions("day").writeTo(table).append()
        did("append", {f"day=2026-01-0{day}": many for day in days})

    if form == "delta":
        rows(1, 2).coalesce(1).write.format("delta").partitionBy("day").save(place)
    else:
        spark.sql(
            f"CREATE TABLE {table} (day string, n int) USING iceberg PARTITIONED BY (day) "
            f"TBLPROPERTIES ({COPY_ON_WRITE})"
        )
        rows(1, 2).sortWithinPartitions("day").writeTo(table).append()
    did("create", {"day=2026-01-01": 3, "day=2026-01-02": 3})
    append(2, many=4)
    append(3, many=5)
    if form == "delta":
        rows(1, many=6).coalesce(1).write.format("delta").mode("overwrite").option(
            "replaceWhere", "day='2026-01-01'"
        ).save(place)
    else:
        rows(1, many=6).writeTo(table).overwritePartitions()
    did("overwrite of a partition", {"day=2026-01-01": 6})
    rows(2, 4, many=1).createOrReplaceTempView("incoming")
    spark.sql(
        f"MERGE INTO {table} t USING incoming s ON t.day = s.day AND t.n = s.n "
        "WHEN MATCHED THEN UPDATE SET n = t.n + 100 WHEN NOT MATCHED THEN INSERT *"
    )
    # rows of day 2 are rewritten: 3 + 4, of which two had n = 0; those of the file that was not touched may stay
    did("merge", {"day=2026-01-02": 7, "day=2026-01-04": 1})
    spark.sql(f"DELETE FROM {table} WHERE day = '2026-01-01' AND n = 5")
    did("deletion of a row", {"day=2026-01-01": 5})
    spark.sql(f"DELETE FROM {table} WHERE day = '2026-01-04'")
    did("deletion of a partition", None)
    append(3, many=1)
    if form == "delta":
        spark.sql(f"OPTIMIZE {table}")
    else:
        spark.sql(
            "CALL lake.system.rewrite_data_files(table => 'iceberg.flights', options => map('min-input-files', '2'))"
        )
    did("compaction", None)
    if form == "delta":
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS (more int)")
        did("change of the schema", None)
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    append(5)


write("delta")
write("iceberg")
spark.stop()
