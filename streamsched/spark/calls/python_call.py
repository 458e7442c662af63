"""`python -m streamsched.spark.calls.python_call TARGET [OPTION…]`: the process of a Python program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from streamsched.spark.calls.call import (
    Call,
    CallError,
    call_function,
    function_of,
    kind_of,
    options_of,
    origin,
    this_call,
)
from streamsched.spark.warm.libraries import Surroundings, loaded_libraries


def execute(target: str, options: Sequence[str], call: Call) -> None:
    """Calls the target: `module:function`, or `main(ns)` of a kind of tasks. What it raises is raised.

    Raises:
        CallError: the target cannot be called as it is defined.
    """
    if ":" in target:
        call_function(function_of(target), call)
        return
    code = kind_of(target)
    main = getattr(code, "main", None)
    if not callable(main):
        raise CallError(f"{target} ({origin(code)}) has no function main(ns)")
    main(options_of(code, options, call))


def _report(file: int, before: Surroundings, target: str) -> None:
    """Writes which libraries a zygote of the program is to import; a run that fails writes nothing. `LIBRARIES` of a
    target of our own come first: those that import each other in a circle can only be imported from one of them.
    """
    found = loaded_libraries(target.partition(":")[0].partition(".")[0])
    first: Sequence[str] = getattr(sys.modules.get(target), "LIBRARIES", ())
    libraries = list(dict.fromkeys([*first, *found.libraries]))
    content = {"libraries": libraries, "own": found.own, "refused": before.change(found.own)}
    with os.fdopen(file, "wb") as output:
        output.write(json.dumps(content).encode())


def main() -> None:
    """The entry point of the process of a Python program: calls TARGET with the options. With STREAMSCHED_LIBRARIES, a
    descriptor, it writes there what a zygote of the program is to import. Exits with the message of a wrong call.
    """
    if len(sys.argv) < 2:
        sys.exit("usage: python -m streamsched.spark.calls.python_call TARGET [OPTION…]")
    report = os.environ.pop("STREAMSCHED_LIBRARIES", "")
    before = Surroundings() if report else None
    try:
        execute(sys.argv[1], sys.argv[2:], this_call())
        if before is not None:
            _report(int(report), before, sys.argv[1])
    except CallError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main()
