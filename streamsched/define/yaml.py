"""YAML with the core schema of YAML 1.2: `22:00`, `no` and `2013-01-08` are strings. Duplicate names are errors.

PyYAML implements YAML 1.1, which reads these values as 1320, false and a date and keeps the last of duplicate names.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from yaml import YAMLError as YamlError

__all__ = ["YamlError", "read_yaml"]


#: Types of plain scalars other than strings (core schema): tag, pattern, and the possible first characters.
_PLAIN: Final = (
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's format: first character -> [(tag, pattern)]
        first: [
            (f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"))
            for tag, pattern, starts in _PLAIN
            if first in starts
        ]
        for first in ("", *"~nNtTfF-+.0123456789")
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"name {key!r} is not a string", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate name '{key}'", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(raw: bytes) -> Any:
    """The document in a file, as JSON values.

    Raises:
        YamlError: it is not valid YAML, has several documents, or is nested too deeply. The message has the line.
    """
    try:
        return yaml.load(raw, Loader=_Loader)
    except RecursionError as exc:
        raise YamlError("the document is nested too deeply") from exc
