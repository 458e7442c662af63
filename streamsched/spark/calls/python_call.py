"""`python -m streamsched.spark.calls.python_call TARGET [OPTION…]`: the process of a Python program."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from streamsched.spark.calls.call import Call, CallError, called, function_of, kind_of, options_of, origin, this_call


def execute(target: str, options: Sequence[str], call: Call) -> None:
    """Calls the target: `module:function`, or `main(ns)` of a kind of tasks. What it raises is raised.

    Raises:
        CallError: the target cannot be called as it is defined.
    """
    if ":" in target:
        called(function_of(target), call)
        return
    code = kind_of(target)
    main = getattr(code, "main", None)
    if not callable(main):
        raise CallError(f"{target} ({origin(code)}) has no function main(ns)")
    main(options_of(code, options, call))


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m streamsched.spark.calls.python_call TARGET [OPTION…]")
    try:
        execute(sys.argv[1], sys.argv[2:], this_call())
    except CallError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main()
