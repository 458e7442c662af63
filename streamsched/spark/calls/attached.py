"""In the process of a run that has a prepared driver: takes the JVM over, then executes the program as Python does.

The context in the JVM becomes that of the program when the program asks for one with the same settings, whatever
differs among those of SQL. With others it is stopped, and a new one starts in the same JVM, as it does after
`spark-submit`. Imports PySpark, nothing of ours: the driver's process has imported it before the fork.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: Settings that each context has of its own.
_OWN: Final = ("spark.app.", "spark.driver.host", "spark.driver.port", "spark.executor.id", "spark.eventLog.")
#: The kind of settings that a context may be given after its start.
_SQL: Final = "spark.sql."
_EVENT_LOG_DIR: Final = "spark.eventLog.dir"
_TOKEN: Final = "STREAMSCHED_TOKEN"


@dataclass(frozen=True, slots=True)
class Attachment:
    """What the program of a run has in its driver.

    Attributes:
        program: the file, and its arguments.
        properties: settings of this run only, its name among them.
        event_log: settings of its event log; empty: it has none.
        executors: variables of its executors' Python; they run in the same environment as the driver.
    """

    program: Sequence[str]
    properties: Mapping[str, str]
    event_log: Mapping[str, str]
    executors: Mapping[str, str]


def start_context() -> None:
    """Starts the context of the JVM named in the environment, and compiles and executes a first query there. On a
    cluster that query has no tasks, so it needs no executors.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only in this process

    session: Any = SparkSession.builder.getOrCreate()
    query = "SELECT sum(id) FROM range(10)" if session.sparkContext.master.startswith("local[") else "SELECT 1"
    session.sql(query).collect()
    session.range(1).selectExpr("id", "cast(id AS string)").limit(0).collect()
    jvm = session._jvm
    jvm.SparkSession.clearActiveSession()
    jvm.SparkSession.clearDefaultSession()


def execute(attachment: Attachment) -> None:
    """Executes the program. What it raises is raised."""
    _attach(attachment)
    main = attachment.program[0]
    sys.argv = list(attachment.program)
    sys.path.insert(0, str(Path(main).resolve().parent))  # as Python does
    runpy.run_path(main, run_name="__main__")


def _attach(attachment: Attachment) -> None:
    from pyspark import SparkContext  # noqa: PLC0415 - only in this process

    spark_context: Any = SparkContext
    spark_context._ensure_initialized()
    jvm: Any = spark_context._jvm
    for name, value in attachment.properties.items():
        jvm.java.lang.System.setProperty(name, value)
    prepared = jvm.org.apache.spark.SparkContext.getOrCreate()
    if attachment.event_log:
        _log_events(jvm, prepared, attachment.event_log)
    spark_context._initialize_context = _give_once(spark_context, prepared, attachment)


def _give_once(spark_context: Any, prepared: Any, attachment: Attachment) -> Callable[[Any, Any], Any]:
    """`SparkContext._initialize_context`, which gives the prepared context once."""
    start_new = spark_context._initialize_context

    def initialize(self: Any, wanted: Any) -> Any:
        spark_context._initialize_context = start_new
        self.environment.update({name: value for name, value in attachment.executors.items() if name != _TOKEN})
        if prepared.isStopped():
            return start_new(self, wanted)
        settings, has = _settings(wanted), _settings(prepared.conf())
        other = [
            name
            for name, value in settings.items()
            if has.get(name) != value and not name.startswith(_OWN) and name not in attachment.properties
        ]
        static = sorted(name for name in other if not name.startswith(_SQL))
        if static:
            print(f"a new context starts in the prepared driver, for the program sets {static[0]}", flush=True)  # noqa: T201
            prepared.stop()
            for name, value in attachment.event_log.items():
                wanted.set(name, value)
            return start_new(self, wanted)
        for each in {*other, *attachment.properties}:
            prepared.conf().set(each, settings.get(each, attachment.properties.get(each, "")))
        return self._jvm.JavaSparkContext(prepared)

    return initialize


def _settings(conf: Any) -> dict[str, str]:
    return {each._1(): each._2() for each in conf.getAll()}


def _log_events(jvm: Any, prepared: Any, settings: Mapping[str, str]) -> None:
    """The event log begins here: what the context did before belongs to no run."""
    conf = prepared.conf().clone()
    for name, value in settings.items():
        conf.set(name, value)
    none, folder = jvm.scala.Option.empty(), jvm.java.net.URI(settings[_EVENT_LOG_DIR])
    scheduler = jvm.org.apache.spark.scheduler
    log = scheduler.EventLoggingListener(prepared.applicationId(), none, folder, conf, prepared.hadoopConfiguration())
    log.start()
    if prepared.isLocal():
        nothing = getattr(getattr(jvm, "scala.collection.immutable.Map$"), "MODULE$").empty()
        host, cores = "localhost", prepared.defaultParallelism()
        executor = scheduler.cluster.ExecutorInfo(host, cores, nothing, nothing, nothing, 0)
        began = jvm.java.lang.System.currentTimeMillis()
        log.onExecutorAdded(scheduler.SparkListenerExecutorAdded(began, "driver", executor))
    prepared.listenerBus().addToEventLogQueue(log)


def run_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that the run has and this process has not, which is its driver's."""
    return {name: value for name, value in environ.items() if os.environ.get(name) != value}
