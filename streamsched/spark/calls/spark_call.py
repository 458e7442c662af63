"""`spark-submit spark_call.py MODULE [OPTION…]`: calls the `main` of a PySpark module, as Stolos does.

main(sc, ns, **parts)         gets the Spark context
main(textFile, ns, **parts)   gets the lines of --read_fp
main(line, ns, **parts)       is called for each line; its results are written to --write_fp
"""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.path and Path(sys.path[0] or ".").resolve() == Path(__file__).resolve().parent:
    del sys.path[0]  # of this script: its modules would hide modules of the same name

from streamsched.spark.calls.call import Call, CallError, accepted_arguments, options_of, origin, this_call

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext


def option_parser() -> argparse.ArgumentParser:
    """The options that every PySpark module has."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--read_fp", help="input of textFile, with {part} of the job id")
    parser.add_argument("--write_fp", help="where the results for each line are written, with {part} of the job id")
    parser.add_argument("--sample", type=_fraction, help="fraction of the input, without replacement")
    parser.add_argument("--mapjson", action="store_true", help="parse each line as JSON")
    parser.add_argument("--minPartitions", type=int, help="least partitions of the input")
    for name in ("--spark_conf", "--spark_env"):
        parser.add_argument(name, nargs="*", type=_pair, default=[], metavar="NAME=VALUE")
    return parser


def check(module: Any, ns: argparse.Namespace, call: Call) -> None:
    """Raises:
    CallError: the module has no `main`, or an option that it needs is missing or cannot be filled in.
    """
    main = getattr(module, "main", None)
    if not callable(main):
        raise CallError(f"module {module.__name__} ({origin(module)}) has no function main(sc, ns)")
    parameters = inspect.signature(main).parameters
    if "sc" not in parameters:
        _fill_option("--read_fp", ns.read_fp, call)
        if "textFile" not in parameters:
            _fill_option("--write_fp", ns.write_fp, call)


def execute(module: Any, ns: argparse.Namespace, call: Call, sc: SparkContext) -> None:
    """Calls `main` of a module that was checked. What it raises is raised."""
    main = module.main
    parameters = inspect.signature(main).parameters
    parts: dict[str, Any] = {
        name: value
        for name, value in accepted_arguments(main, call.parts).items()
        if name not in ("sc", "ns", "textFile")
    }
    if "ns" in parameters or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        parts["ns"] = ns
    if "sc" in parameters:
        main(sc=sc, **parts)
        return
    lines = _input(sc, ns, call)
    if "textFile" in parameters:
        main(textFile=lines, **parts)
        return
    written = _fill_option("--write_fp", ns.write_fp, call)
    lines.map(functools.partial(main, **parts)).saveAsTextFile(written)


def _input(sc: SparkContext, ns: argparse.Namespace, call: Call) -> RDD[Any]:
    lines = sc.textFile(_fill_option("--read_fp", ns.read_fp, call), ns.minPartitions)
    if ns.sample:
        lines = lines.sample(False, ns.sample, 0)
    return lines.map(json.loads) if ns.mapjson else lines


def _fill_option(option: str, text: str | None, call: Call) -> str:
    if text is None:
        raise CallError(f"{option} is missing, and main has no parameter 'sc'")
    try:
        return text.format(**{**call.arguments, "app_name": call.task, "job_id": call.job_id})
    except (KeyError, IndexError, ValueError) as exc:
        known = ", ".join(sorted(call.arguments))
        raise CallError(f"{option} {text} cannot be filled in ({exc}); the run has: {known}") from exc


def _fraction(text: str) -> float:
    found = float(text)
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1 but is {text}")
    return found


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE but is {text}")
    return name, value


def main() -> None:
    """The entry point under spark-submit: calls MODULE with a Spark context, which it stops however the call ends.
    Options are checked before Spark starts. Exits with the message of a wrong call.
    """
    if len(sys.argv) < 2:
        sys.exit("usage: spark-submit spark_call.py MODULE [OPTION…]")
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - only where it is executed

    try:
        call = this_call()
        module = import_module(sys.argv[1])
        ns = options_of(module, sys.argv[2:], call, before=option_parser())
        check(module, ns, call)  # before Spark starts, which takes seconds
        conf = SparkConf()
        for name, value in ns.spark_conf:
            conf.set(name, value)
        inherited = [name for name in os.environ.get("STREAMSCHED_EXECUTOR_ENV", "").split(",") if name]
        conf.setExecutorEnv(pairs=[*((name, os.environ[name]) for name in inherited), *ns.spark_env])
        sc = SparkContext(conf=conf)
        try:
            execute(module, ns, call, sc)
        finally:
            sc.stop()
    except CallError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main()
