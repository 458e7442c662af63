"""A command whose extra is not installed names the extra."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from streamsched.process.extras import EXTRAS

ROOT = Path(__file__).parents[3]
#: Distributions whose module has another name.
MODULES = {
    "grpcio": "grpc",
    "faust-streaming": "faust",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
}
#: Runs a command in a Python where these modules are not installed.
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from streamsched.cli.main import main
sys.argv = ["streamsched", *{words}]
main()
"""


def run_without(extra: str, words: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
    missing = {module for module, its in EXTRAS.items() if its == extra or (extra == "server" and its == "embedded")}
    code = WITHOUT.format(missing=missing, words=words)
    return subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60, env=environ
    )


def test_every_package_of_an_extra_is_known() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    brought: dict[str, str] = {}
    for extra in (
        "server",
        "embedded",
        "kafka",
        "dapr",
        "delta",
        "iceberg",
        "storage",
        "s3",
        "spark",
        "demo",
        "testing",
        "traces",
    ):
        for requirement in extras[extra]:
            name = re.split(r"[^A-Za-z0-9._-]", requirement)[0]
            if name != "streamsched":
                brought[MODULES.get(name, name.replace("-", "_"))] = extra

    assert dict(EXTRAS) == brought


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["dev"], "embedded"),
        (["api"], "server"),
        (["worker"], "server"),
        (["launcher"], "server"),
        (["migrate"], "server"),
        (["doctor"], "server"),
    ],
)
def test_a_command_names_the_extra_it_needs(words: list[str], extra: str, tmp_path: Path) -> None:
    here = {"STREAMSCHED_DATABASE_URL": "postgresql://127.0.0.1:9/none", "STREAMSCHED_DATA_DIR": str(tmp_path)}

    found = run_without("server", words, **here)

    assert found.returncode == 2, found.stderr
    assert re.fullmatch(
        rf"error: \w+ is not installed; it comes with an extra: pip install 'streamsched\[{extra}\]'\n", found.stderr
    ), found.stderr


def test_dev_without_embedded_postgresql_names_the_extra(tmp_path: Path) -> None:
    found = run_without("embedded", ["dev", "--port", "0"], STREAMSCHED_DATA_DIR=str(tmp_path), PATH="/usr/bin:/bin")

    assert found.returncode == 2, found.stderr
    assert "pip install 'streamsched[embedded]'" in found.stderr
    assert "Traceback" not in found.stderr


def test_an_emitter_to_kafka_without_its_driver_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['aiokafka'] = None\n"
        "from streamsched.emit import Emitter, custom\n"
        "Emitter('kafka://127.0.0.1:9/', source='test').emit(custom('e'))"
    )

    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)

    assert found.stderr.splitlines()[-1] == (
        "streamsched.domain.errors.ConfigurationError: aiokafka is not installed; it comes with an extra: "
        "pip install 'streamsched[kafka]'"
    )


def test_help_and_emitting_need_no_extra() -> None:
    found = run_without("server", ["--help"])

    assert (found.returncode, found.stderr) == (0, "")
