"""A Spark job of somebody else, with OpenLineage's listener, starts programs; none of its code is ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.dev_process import DevProcess
from tests.support.services import need_java
from tests.support.spark_jars import need_jar

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]

APP = """
from streamsched import App, partitions, program

app = App("demo")
hello = app.bash("hello", "echo hello")
app.schedule("by-data", hello, when=partitions("flights", 1))
app.schedule("by-job", hello, when=program("default.nightly.etl", "succeeded"))
"""
JOB = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("etl").getOrCreate()
spark.range(1000).selectExpr("id", "id % 3 AS day").write.partitionBy("day").parquet(sys.argv[1])
spark.stop()
"""


def submit(dev: DevProcess, url: str, script: Path, output: Path) -> None:
    import pyspark

    jar = need_jar("io.openlineage", "openlineage-spark_2.13", "1.53.0")
    home = Path(pyspark.__file__).parent
    conf = {
        "spark.jars": jar,
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": url,
        "spark.openlineage.transport.endpoint": "/api/v1/lineage",
        "spark.openlineage.transport.auth.type": "api_key",
        "spark.openlineage.transport.auth.apiKey": dev.token,
        "spark.openlineage.namespace": "nightly",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    properties = dev.folder / "spark.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
    done = subprocess.run(
        (home / "bin" / "spark-submit", "--master", "local[2]", "--properties-file", properties, script, output),
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_foreign_job_starts_programs_by_its_data_and_by_its_end(tmp_path: Path) -> None:
    need_java()
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "etl.py").write_text(JOB)
    dev = DevProcess(tmp_path)
    lake = tmp_path / "lake" / "flights"
    dev.start(STREAMSCHED_LINEAGE_DATASETS=f"{lake}=default.flights")
    try:
        assert dev.run("deploy", "app.py").code == 0
        url = json.loads((dev.state / "dev.json").read_text())["url"]

        submit(dev, url, tmp_path / "etl.py", lake)

        dev.until(lambda: dev.completed("default.demo.by-data.1.1.r1", "default.demo.by-job.1.1.r1"), within=60)
    finally:
        dev.close()
