"""Builds Dapr's scheduler and sidecar from their Go modules, into a cache folder outside the repository.

Dapr's module has `replace` directives, so `go install` refuses it: a module of our own copies its requirements. The
sidecar is Dapr's `cmd/daprd/app/app.go` without the import of its components (every cloud's client), which jobs
don't use.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

VERSIONS: Final = {"daprd": "v1.18.1", "scheduler": "v1.18.3"}
"""By program: of every other release of 1.18 a module that it requires isn't to be had."""

MODULE: Final = "github.com/dapr/dapr"
FOLDER: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamsched" / "dapr-real"
GO: Final = {
    "GOFLAGS": "-p=1 -mod=mod -buildvcs=false",
    "GOTOOLCHAIN": "local",
    "GOMEMLIMIT": "4GiB",
    "CGO_ENABLED": "0",
}
SCHEDULER: Final = 'package main\n\nimport "github.com/dapr/dapr/cmd/scheduler/app"\n\nfunc main() { app.Run() }\n'
COMPONENTS: Final = '\t_ "github.com/dapr/dapr/cmd/daprd/components"\n'


class Programs(NamedTuple):
    """Where the two programs lie."""

    sidecar: Path
    scheduler: Path


def programs() -> Programs:
    """Where they lie when they are built."""
    return Programs(*(FOLDER / name / version / name for name, version in VERSIONS.items()))


def build(*names: str) -> Programs:
    """Builds those of the programs that aren't there: some 16 minutes for both, at low priority, with 1.1 GB of memory.

    Raises CalledProcessError when Go, or a module, is missing.
    """
    for name in names or VERSIONS:
        version = VERSIONS[name]
        module = FOLDER / name / version
        if not (module / name).exists():
            sys.stderr.write(f"building {name} {version} in {module}\n")
            source = Path(json.loads(_go("mod", "download", "-json", f"{MODULE}@{version}", folder=Path.home()))["Dir"])
            _write_module(name, source, module)
            _go("build", "-trimpath", "-ldflags=-s -w", "-o", name, "./program", folder=module)
    return programs()


def build_module(name: str, source: Path) -> Path:
    """Builds the Go module of a folder, unless it is built and unchanged; returns where the program lies.

    Raises CalledProcessError when Go, or a module, is missing.
    """
    files = sorted(path for path in source.iterdir() if path.suffix in {".go", ".mod", ".sum"})
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    folder = FOLDER / name / digest
    if not (folder / name).exists():
        sys.stderr.write(f"building {name} in {folder}\n")
        for path in files:
            _write(folder / path.name, path.read_text())
        _go("build", "-trimpath", "-ldflags=-s -w", "-o", name, ".", folder=folder)
    return folder / name


def _write_module(name: str, source: Path, folder: Path) -> None:
    """Writes a module that requires the release of Dapr in `source`, and has one program."""
    requirements = (source / "go.mod").read_text()
    renamed = requirements.replace(f"module {MODULE}\n", "module streamsched.test/dapr\n", 1)
    main = SCHEDULER
    if name == "daprd":
        text = (source / "cmd" / "daprd" / "app" / "app.go").read_text()
        main = text.replace("package app", "package main", 1).replace("func Run()", "func main()", 1)
        main = main.replace(COMPONENTS, "", 1)
    _write(folder / "go.mod", f"{renamed}\nrequire {MODULE} {VERSIONS[name]}\n")
    _write(folder / "go.sum", (source / "go.sum").read_text())
    _write(folder / "program" / "main.go", main)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _go(*arguments: str, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        ["nice", "-n", "19", "go", *arguments],
        cwd=folder,
        env={**os.environ, **GO},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    build(*sys.argv[1:])
