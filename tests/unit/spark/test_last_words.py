"""The line of a log that becomes a failed run's reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched.spark.files import failure_reason

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


CALLED = """Traceback (most recent call last):
  File "/main.py", line 9, in <module>
    frame.count()
  File "/opt/spark/python/lib/py4j-src.zip/py4j/protocol.py", line 326, in get_return_value
py4j.protocol.Py4JJavaError: An error occurred while calling o46.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)
Caused by: java.io.FileNotFoundException: File file:/data/day=1 does not exist
\t... 12 more
26/03/01 12:00:01 INFO ShutdownHookManager: Shutdown hook called
"""

WORKED = """26/03/01 12:00:00 ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/main.py", line 3, in <lambda>
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
Traceback (most recent call last):
  File "/main.py", line 4, in <module>
    frame.collect()
pyspark.errors.exceptions.captured.PythonException:
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/main.py", line 3, in <lambda>
ZeroDivisionError: division by zero

26/03/01 12:00:01 INFO ShutdownHookManager: Shutdown hook called
"""

CHAINED = """Traceback (most recent call last):
  File "/main.py", line 1, in <module>
KeyError: 'day'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/main.py", line 3, in <module>
    raise NothingLanded("day=1")
join.NothingLanded: day=1
  a second line of the message
ERROR: ld.so: object could not be preloaded: ignored Error
"""

EMPTY_FIRST_LINE = """Traceback (most recent call last):
  File "/main.py", line 3, in <module>
ValueError:
column day is missing
"""


EXIT = "Calling System.exit() with exit code 1 because spark.submit.callSystemExitOnMainExit=true"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (TRACEBACK, "pyspark.errors.exceptions.captured.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] gone"),
        (JAVA, 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space'),
        (CALLED, "java.io.FileNotFoundException: File file:/data/day=1 does not exist"),
        (CALLED.replace("Caused by", "Beside"), CALLED.splitlines()[5].removeprefix(": ")),
        (WORKED, "ZeroDivisionError: division by zero"),
        (CHAINED, "join.NothingLanded: day=1"),
        (EMPTY_FIRST_LINE, "ValueError: column day is missing"),
        ('Traceback (most recent call last):\n  File "x"\n', ""),
        ("one\ntwo\n\n", "two"),
        (f"no such day\n{EXIT}\n", "no such day"),
        ("bash: line 1: frobnicate: command not found\n", "bash: line 1: frobnicate: command not found"),
        ("", ""),
        ("\tat only.Frames(X.java:1)\n", ""),
    ],
)
def test_the_last_words_are_the_line_that_says_what_went_wrong(tmp_path: Path, log: str, words: str) -> None:
    (tmp_path / "log").write_text(log)

    assert failure_reason(tmp_path / "log") == words


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("ValueError: old\n" + "chatter\n" * 20_000)

    assert failure_reason(tmp_path / "log") == "chatter"
