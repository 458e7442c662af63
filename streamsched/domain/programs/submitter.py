"""What `spark-submit` with `--deploy-mode cluster` takes from a definition for itself, on the machine of a launcher.

| cluster | the launcher's machine |
|---|---|
| standalone | has no `spark-submit`: the master's REST server gets the definition, a worker reads it |
| YARN, Kubernetes | has one: it uploads files, resolves packages, logs in, by settings that the driver gets too |

Spark has no list of the settings that its submitter reads. So here is the list of those that only drivers and executors
read; sources: `SparkSubmit.prepareSubmitEnvironment`, `SparkSubmitCommandBuilder` (options of the JVM: of client mode
only), `deploy.yarn.Client`, `deploy.k8s.submit` and `DependencyUtils` of Spark 4.1. What is not in it is treated as
read by the submitter: `spark.jars*`, `spark.files`, `spark.archives`, `spark.submit.*`, `spark.yarn.dist.*`, keytabs,
`spark.hadoop.*` (which names classes and scripts), templates of pods, and `spark.kubernetes.namespace`, in which it
makes pods by the launcher's credentials.
"""

from __future__ import annotations

import re
from typing import Final

from streamsched.domain.programs.spark_deployment import ClusterKind

_NAME: Final = re.compile(r"spark(\.[A-Za-z0-9_\-/]+)+", re.ASCII)
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
#: Settings by which the launcher finds a standalone master.
_PORTS: Final = frozenset({"spark.master.rest.port", "spark.master.ui.port"})
#: Spark replaces `${env:NAME}` and `${system:name}` in values where it reads them, the submitter its own.
_SUBSTITUTED: Final = "${"
_REMOTE: Final = frozenset(
    {
        *(f"spark.driver.{each}" for each in ("cores", "memory", "memoryOverhead", "memoryOverheadFactor")),
        *(f"spark.driver.{each}" for each in ("maxResultSize", "extraJavaOptions", "defaultJavaOptions")),
        *(f"spark.driver.{each}" for each in ("extraClassPath", "extraLibraryPath", "userClassPathFirst")),
        *("spark.cores.max", "spark.default.parallelism", "spark.network.timeout", "spark.serializer"),
        *("spark.pyspark.python", "spark.pyspark.driver.python", "spark.speculation"),
        *("spark.yarn.queue", "spark.yarn.priority", "spark.yarn.maxAppAttempts"),
        *("spark.yarn.am.nodeLabelExpression", "spark.yarn.executor.nodeLabelExpression"),
        *("spark.kubernetes.container.image", "spark.kubernetes.container.image.pullPolicy"),
        *(f"spark.kubernetes.{each}.container.image" for each in ("driver", "executor")),
        *(f"spark.kubernetes.{each}.request.cores" for each in ("driver", "executor")),
        *(f"spark.kubernetes.{each}.limit.cores" for each in ("driver", "executor")),
        "spark.kubernetes.memoryOverheadFactor",
    }
)
_REMOTE_PREFIXES: Final = (
    *("spark.sql.", "spark.executor.", "spark.executorEnv.", "spark.dynamicAllocation.", "spark.eventLog."),
    *("spark.shuffle.", "spark.memory.", "spark.storage.", "spark.task.", "spark.stage.", "spark.scheduler."),
    *("spark.locality.", "spark.speculation.", "spark.kryo.", "spark.kryoserializer.", "spark.rdd."),
    *("spark.broadcast.", "spark.io.", "spark.reducer.", "spark.python.", "spark.streaming.", "spark.cleaner."),
    *("spark.excludeOnFailure.", "spark.yarn.appMasterEnv.", "spark.kubernetes.driverEnv."),
    *("spark.kubernetes.driver.label.", "spark.kubernetes.executor.label."),
    *("spark.kubernetes.driver.annotation.", "spark.kubernetes.executor.annotation."),
    *("spark.kubernetes.node.selector.", "spark.kubernetes.driver.node.selector."),
    "spark.kubernetes.executor.node.selector.",
)
#: File systems that all machines read alike.
_SHARED: Final = re.compile(r"(hdfs|viewfs|s3a|abfss?|gs)://[^\s,{}*?\[\]\\%]+", re.ASCII)
_IN_IMAGE: Final = re.compile(r"local://[^\s,{}*?\[\]\\%]+", re.ASCII)
#: Paths in a bundle that `spark-submit` reads as they are: it divides lists at commas, expands `*?[]{}`, decodes `%`.
_PLAIN: Final = re.compile(r"(?!/)[\w.+=@\-/]+(#[\w.\-]*)?")


def setting_refusal(name: str, value: str, kind: ClusterKind | None) -> str:
    """Why the submitter would take the setting for itself; empty when only driver and executors read it.

    Args:
        kind: of the cluster; None: any of them.
    """
    if kind is ClusterKind.STANDALONE:
        bad = name in _PORTS and not _PORT.fullmatch(value)
        return "must be the number of a port, since the launcher connects to it" if bad else ""
    if not _NAME.fullmatch(name) or not (name in _REMOTE or name.startswith(_REMOTE_PREFIXES)):
        return "is not among the settings that only driver and executors read"
    if _SUBSTITUTED in value:
        return f"has {_SUBSTITUTED}, which spark-submit replaces by variables of the launcher's machine"
    return ""


def file_refusal(text: str, kind: ClusterKind | None, *, bundled: bool) -> str:
    """Why the submitter would read the file on the launcher's machine, or fetch it there; empty when it does not, or
    when the file is in the program's own bundle.

    Args:
        text: path or URL, with the `#name` of an archive.
        kind: of the cluster; None: any of them.
        bundled: whether the program has a bundle.
    """
    if kind is ClusterKind.STANDALONE or _SHARED.fullmatch(text):
        return ""
    if kind is ClusterKind.KUBERNETES and _IN_IMAGE.fullmatch(text):
        return ""
    if "://" in text:
        return "is a URL that the launcher's machine would read: use hdfs, viewfs, s3a, abfs, abfss or gs"
    if not bundled or text.startswith("/"):
        return "is a file of the launcher's machine: put it into a bundle, or on hdfs, s3a, abfs or gs"
    if not _PLAIN.fullmatch(text) or ".." in text.split("/"):
        return (
            "must have letters, digits and _ . + = @ - only, since spark-submit reads other characters in its own way"
        )
    return ""
