"""What a member of a shape says besides its name and type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamsched.codec.shape.kind import HasKind
from streamsched.codec.shape.schemas import Schema


class About:
    """An annotation, `name: Annotated[str, About("alerts")]`, or an entry of `JsonShape(…, about={"name": About(…)})`.

    Attributes:
        example: of the value, or of an element of a list; None: that of its type.
        text: the description.
        name: in JSON; empty: that of the attribute in camel case.
        of: where the source of an answer has it, such as `outcome.state`; empty: in the field of its own name. Below
            None is None.
        blank: an empty text of the source is null.
        key: of an object of values, in the example.
        least, most: of a whole number, included; the reader refuses others.
        shape: of a nested object.
        spread: its members are members of the object itself, of an answer; a mapping without a shape has those of no
            other field.
        schema: in place of the one that would be made.
        rules: other keywords of its schema, such as `maxLength`. The reader does not know them: the value that is made
            checks itself.
    """

    __slots__ = (
        "blank",
        "example",
        "key",
        "least",
        "most",
        "name",
        "of",
        "rules",
        "schema",
        "shape",
        "spread",
        "text",
    )

    def __init__(
        self,
        example: Any = None,
        text: str = "",
        *,
        name: str = "",
        of: str = "",
        blank: bool = False,
        key: str = "",
        least: int | None = None,
        most: int | None = None,
        shape: HasKind | None = None,
        spread: bool = False,
        schema: Schema | None = None,
        **rules: Any,
    ) -> None:
        self.example = example
        self.text = text
        self.name = name
        self.of = of
        self.blank = blank
        self.key = key
        self.least = least
        self.most = most
        self.shape = shape
        self.spread = spread
        self.schema = schema
        self.rules: Mapping[str, Any] = rules


#: Of the reason for a change.
REASON: Final = About("moved to the new cluster", "Stored in the history.")
#: Of a member that says nothing besides.
NOTHING: Final = About()
