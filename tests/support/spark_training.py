"""A Spark program whose classes are those of most programs of tests: their archive is made of it (`quick_java`)."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def work(spark: SparkSession, folder: Path) -> None:
    """Files of each format, expressions, joins, Python in executors, pandas, and a stream."""
    frame = spark.createDataFrame([(n, f"k{n % 3}", n / 7) for n in range(50)], "id long, k string, x double")
    for kind in ("parquet", "json", "csv"):
        frame.write.mode("overwrite").partitionBy("k").format(kind).save(f"{folder / kind}")
        spark.read.schema("id long, x double, k string").format(kind).load(f"{folder / kind}").count()
    grouped = frame.filter("id > 3 AND x IS NOT NULL").groupBy("k")
    grouped.agg(f.expr("count(*) AS n"), f.expr("sum(x)"), f.expr("max(now())")).orderBy("n").collect()
    frame.join(frame.groupBy("k").agg(f.avg("x").alias("m")), "k").orderBy("id").collect()
    spark.sparkContext.parallelize(range(10), 2).map(lambda n: (n % 2, n)).reduceByKey(max).collect()
    frame.select(f.udf(lambda value: value + 1, "long")("id")).collect()
    frame.toPandas()
    stream = spark.readStream.schema("id long, x double").parquet(f"{folder / 'parquet'}").writeStream
    stream.option("checkpointLocation", f"{folder / 'known'}").trigger(availableNow=True).start(
        f"{folder / 'streamed'}"
    ).awaitTermination()


def main(folder: Path) -> None:
    """Runs it in a folder."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.port", "0")
    for name, value in {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"{folder}",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    work(session, folder / "files")
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
