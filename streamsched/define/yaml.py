"""YAML as people mean it: `22:00`, `no` and `2013-01-08` are texts, and a name stands once.

YAML 1.1, which PyYAML speaks, reads them as 1320, false and a date, and takes the last of two equal names.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from yaml import YAMLError as YamlError

__all__ = ["YamlError", "read_yaml"]


#: What a plain word may be besides a text (YAML 1.2's core schema), and the characters it may begin with.
_PLAIN: Final = (
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 - so PyYAML wants it: first character -> [(tag, pattern)]
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
                raise yaml.constructor.ConstructorError(None, None, f"name {key!r} is no text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"'{key}' stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(raw: bytes) -> Any:
    """The one document of a file, as JSON would give it.

    Raises:
        YamlError: it is none, says which line, or holds several documents.
    """
    return yaml.load(raw, Loader=_Loader)
