"""Which runs and jobs the reasons of a namespace name: its own. Those of other namespaces, with which it shares groups
and pools, are counted. Reasons go into lists, histories and webhooks, whose readers differ; so they never name them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: Maximum number of ids in a reason.
_NAMED: Final = 5
#: Least number of dots in an id.
_DOTS: Final = 2


def names_text(ids: Sequence[str], own: str | None = None, kind: str = "run") -> str:
    """Ids of runs or jobs joined for a reason of namespace `own`; only the first few are listed. Without `own`, all of
    them are of one namespace.

        >>> names_text(["sales.a.s.1.1.r1", "finance.a.s.1.1.r1", "finance.a.s.1.2.r1"], "sales")
        'sales.a.s.1.1.r1 and 2 runs of other namespaces'
    """
    mine = ids if own is None else [each for each in ids if is_own(each, own)]
    more = len(mine) - _NAMED
    text = ", ".join(mine[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return " and ".join(filter(None, (text, others_text(len(ids) - len(mine), kind))))


def others_text(count: int, kind: str = "run") -> str:
    """How many runs or jobs of other namespaces; empty for none."""
    return (
        "" if not count else f"1 {kind} of another namespace" if count == 1 else f"{count} {kind}s of other namespaces"
    )


def is_own(name: str, own: str) -> bool:
    """Whether this is no id of a run or job of another namespace than `own`; other texts are of none."""
    return name.startswith(f"{own}.") or " " in name or name.count(".") < _DOTS
