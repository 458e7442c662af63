"""The line of a log that becomes a failed run's reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched.spark.files import last_words

TRACEBACK = """26/03/01 12:00:00 INFO SparkContext: Running Spark version 4.0.0
Traceback (most recent call last):
  File "/main.py", line 3, in <module>
    spark.table("gone")
pyspark.errors.exceptions.captured.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] gone
26/03/01 12:00:01 INFO ShutdownHookManager: Shutdown hook called
26/03/01 12:00:01 INFO ShutdownHookManager: Deleting directory /tmp/spark
"""

JAVA = """Exception in thread "main" java.lang.OutOfMemoryError: Java heap space
\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)
\t... 12 more
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (TRACEBACK, "pyspark.errors.exceptions.captured.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] gone"),
        (JAVA, 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space'),
        ("one\ntwo\n\n", "two"),
        ("bash: line 1: frobnicate: command not found\n", "bash: line 1: frobnicate: command not found"),
        ("", ""),
        ("\tat only.Frames(X.java:1)\n", ""),
    ],
)
def test_the_last_words_are_the_line_that_says_what_went_wrong(tmp_path: Path, log: str, words: str) -> None:
    (tmp_path / "log").write_text(log)

    assert last_words(tmp_path / "log") == words


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("ValueError: old\n" + "chatter\n" * 20_000)

    assert last_words(tmp_path / "log") == "chatter"
