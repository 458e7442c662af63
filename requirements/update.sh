#!/usr/bin/env bash
# Writes the requirements with the hashes of every package, from pyproject.toml and constraints.txt. Needs uv.
# Each file is complete: `pip install --require-hashes --requirement requirements/demo.txt`, then the package itself by
# `pip install --no-deps --no-build-isolation .`
set -euo pipefail
cd "$(dirname "$0")/.."

compile() { # file, extras
  local file=$1
  shift
  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
    --constraint constraints.txt "${@/#/--extra=}" pyproject.toml requirements/build.in --output-file "requirements/$file.txt" > /dev/null
}

compile demo demo
compile delta demo delta
compile dev dev
compile fuzz fuzz
compile server server kafka spark demo
