"""Programs that are jars on real Spark: the class is called, and its end is that of the run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from zipfile import ZipFile

import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.domain.programs.spark_needs import SparkNeeds
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.ports.runs import RunEnd
from streamsched.spark.files import RunFiles
from tests.support.java_classes import compile_class, jars_of_spark

from .test_bad_programs import RUN, ended

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

SOURCE = """
package com.acme;
import org.apache.spark.sql.SparkSession;
public class Count {
    public static void main(String[] arguments) {
        SparkSession spark = SparkSession.builder().getOrCreate();
        System.out.println("counted " + spark.range(Long.parseLong(arguments[0])).count()
            + " in " + System.getenv("STREAMSCHED_NAMESPACE"));
        spark.stop();
        if (arguments.length > 1) System.exit(Integer.parseInt(arguments[1]));
    }
}
"""


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A jar with class `com.acme.Count`, which its manifest does not name."""
    folder = tmp_path_factory.mktemp("jar")
    (folder / "Count.java").write_text(SOURCE)
    compile_class(folder / "Count.java", jars_of_spark(), folder)
    made = folder / "acme-1.0.jar"
    with ZipFile(made, "w") as archive:
        archive.write(folder / "com" / "acme" / "Count.class", "com/acme/Count.class")
    return made


async def end_of(jar: Path, folder: Path, *arguments: str, main_class: str = "com.acme.Count") -> tuple[RunEnd, str]:
    async with asyncio.timeout(200):
        ending = await ended(SparkJob(str(jar), arguments, needs=SparkNeeds(main_class=main_class)), folder)
    return ending, RunFiles(folder, RUN).log.read_text()


async def test_a_class_in_a_jar_is_called(java: None, jar: Path, tmp_path: Path) -> None:
    ending, said = await end_of(jar, tmp_path, "1000")

    assert (ending.state, ending.exit_code) == (RunState.COMPLETED, 0)
    assert "counted 1000 in default" in said
    assert ending.metrics is not None


async def test_its_exit_code_is_that_of_the_run(java: None, jar: Path, tmp_path: Path) -> None:
    ending, _ = await end_of(jar, tmp_path, "10", "3")

    assert (ending.state, ending.exit_code) == (RunState.FAILED, 3)


async def test_a_class_that_is_not_in_the_jar_is_named(java: None, jar: Path, tmp_path: Path) -> None:
    ending, said = await end_of(jar, tmp_path, main_class="com.acme.Gone")

    assert ending.state is RunState.FAILED
    assert "Failed to load class com.acme.Gone" in said
