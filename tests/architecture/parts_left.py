"""What is left of the product without a dialect: `python -m tests.architecture.parts_left TEST …` in a copied tree.

Imports every module, runs these tests, and prints the OpenAPI document and the names of commands and importers. Fails
as the tests do.
"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pkgutil import walk_packages

import pytest

import streamsched
from streamsched.api.app import make_routes
from streamsched.api.description.document import document
from streamsched.cli.shell.command_table import CommandTable

if __name__ == "__main__":
    for each in walk_packages(streamsched.__path__, "streamsched."):
        if not each.name.endswith(".__main__"):
            import_module(each.name)
    table = CommandTable()
    found = {
        "api": document(make_routes().served),
        "commands": list(table),
        "imports": list(table["import"].commands),
    }
    with redirect_stdout(sys.stderr):
        failed = pytest.main(["-q", "-n0", "-p", "no:cacheprovider", *sys.argv[1:]])
    json.dump(found, sys.stdout)
    sys.exit(failed)
