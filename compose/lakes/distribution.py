"""Delta Lake's, Iceberg's and S3's jars for Spark, and a Spark of another version, downloaded once into a cache folder.

The newest Spark that both formats support is the one that `constraints.txt` pins. The jars of a format are for one
minor version of Spark: with another one they fail at the first write.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from compose import downloads
from compose.downloads import download_jar, jar_path, move_into_place, run_download

#: The newest Spark that both formats support.
SPARK: Final = "4.1.4"
#: The newest Spark of all.
NEWEST_SPARK: Final = "4.3.0"
ARTIFACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "delta": ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    "iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
    "s3": ("org.apache.hadoop:hadoop-aws:3.4.2", "software.amazon.awssdk:bundle:2.29.52"),
}
#: What the jars of a format take.
SIZES: Final[Mapping[str, str]] = {"delta": "10 MB", "iceberg": "48 MB", "s3": "630 MB"}


def cache_folder(environ: Mapping[str, str]) -> Path:
    """`STREAMSCHED_LAKES_CACHE`, or a folder in the user's cache folder."""
    return downloads.cache_folder(environ, "STREAMSCHED_LAKES_CACHE", "lakes")


def jars(form: str, cache: Path) -> tuple[Path, ...]:
    """The jars of `delta`, `iceberg` or `s3`, downloaded from Maven Central if they are not in the cache, after a line
    that says so.

    Raises:
        MissingError: Maven is needed but not installed, or the download failed.
    """
    missing = [each for each in ARTIFACTS[form] if not jar_path(each, cache).is_file()]
    if missing and shutil.which("mvn"):
        what = f"the jars of {form} from Maven Central into {cache}: {', '.join(missing)}, {SIZES[form]} in all"
        sys.stderr.write(f"downloading {what}, once …\n")
    return tuple(download_jar(artifact, cache) for artifact in ARTIFACTS[form])


def conf(form: str, cache: Path, warehouse: str) -> dict[str, str]:
    """What Spark needs to write tables of a format: its jars, its SQL, and its catalog, whose tables without a path are
    in the folder `warehouse`. Delta's is Spark's own catalog, Iceberg's is called `lake`. Raises as `jars`.
    """
    found = {"spark.jars": ",".join(str(jar) for jar in jars(form, cache)), "spark.sql.warehouse.dir": warehouse}
    if form == "delta":
        return found | {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    return found | {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": warehouse,
    }


def spark_folder(version: str, cache: Path) -> Path:
    """A folder that, first in `PYTHONPATH`, has PySpark of this version; downloaded if it is not in the cache (450 MB).

    Raises:
        MissingError: the download failed.
    """
    folder = cache / f"pyspark-{version}"
    if not folder.is_dir():
        sys.stderr.write(f"downloading PySpark {version} from PyPI into {folder}: 450 MB, once …\n")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".installing-") as scratch:
            made = Path(scratch) / "pyspark"
            command = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", f"--target={made}")
            run_download((*command, f"pyspark=={version}"), f"PySpark {version}")
            move_into_place(made, folder)
    return folder
