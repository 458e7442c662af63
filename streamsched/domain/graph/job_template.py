"""Job-id templates: the components of a task's job ids and their order.

>>> template = JobTemplate.parse("{date}_{client}")
>>> template.parts("20140101_client1")
('20140101', 'client1')
>>> template.job_id(("20140101", "client1"))
'20140101_client1'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Self

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.limits import abridge, check_most

DELIMITER: Final = "_"
#: Most components of a template, and most characters of a job id: it is in keys of tables.
MOST_COMPONENTS: Final = 20
LONGEST_JOB_ID: Final = 200
#: Names that mean something else in `depends_on`.
RESERVED: Final = frozenset({"task", "app_name", "job_id", "function"})

_COMPONENT: Final = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)\}")
_DIGITS: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_DATE: Final = re.compile(r"[0-9]{8}")
_TIME: Final = re.compile(r"[0-9]{8}T[0-9]{6}")
#: Days and instants as job ids have them.
DAY: Final = "%Y%m%d"
INSTANT: Final = "%Y%m%dT%H%M%S"


#: Converts a value of a component to the one that job ids have, which it must convert to itself; True leaves it. It
#: refuses the value by None, False or any exception.
Validator = Callable[[str], object]


class ComponentKind(StrEnum):
    """What the values of a component are: any text, a whole number, a day as YYYYMMDD, or an instant in UTC as
    YYYYMMDDTHHMMSS.
    """

    TEXT = "text"
    INTEGER = "integer"
    DATE = "date"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """Components in order, joined by a delimiter of one character. Only the last value may contain the delimiter, so
    that a job id has one reading. A job id is a text: `01` and `1` are two values of a component, also of an integer
    one, which accepts only the second.

    Attributes:
        kinds: by component; text where none is given.
        validations: the name of the validators by component; empty: none.
        validators: the functions of that name, where they are installed. They are asked wherever a value is checked.
    """

    components: tuple[str, ...]
    delimiter: str = DELIMITER
    kinds: Mapping[str, ComponentKind] = field(default_factory=dict[str, ComponentKind])
    validations: str = ""
    validators: Mapping[str, Validator] = field(default_factory=dict[str, Validator], repr=False, compare=False)

    @classmethod
    def parse(
        cls, text: str, delimiter: str = DELIMITER, kinds: Mapping[str, ComponentKind] | None = None, path: str = "$"
    ) -> Self:
        """Reads `{date}_{client}`.

        Raises:
            InvalidDefinitionError: it is not components joined by the delimiter, or one occurs twice; at `path`.
        """
        if len(delimiter) != 1 or delimiter in "{}" or not delimiter.isprintable():
            raise InvalidDefinitionError(path, f"has delimiter {abridge(delimiter)}; it is one character, not a brace")
        components = tuple(found[1] for found in _COMPONENT.finditer(text))
        if not components or delimiter.join(f"{{{name}}}" for name in components) != text:
            raise InvalidDefinitionError(
                path, f"must be components joined by '{delimiter}', as {{date}}{delimiter}{{client}}: {abridge(text)}"
            )
        check_most(len(components), MOST_COMPONENTS, path, "components")
        for name in components:
            if components.count(name) > 1:
                raise InvalidDefinitionError(path, f"names component '{name}' twice")
            if name in RESERVED:
                raise InvalidDefinitionError(path, f"names component '{name}', which has another meaning in depends_on")
        chosen = {} if kinds is None else {name: kinds[name] for name in components if name in kinds}
        return cls(components, delimiter, chosen)

    def __str__(self) -> str:
        return self.delimiter.join(f"{{{name}}}" for name in self.components)

    def parts(self, job_id: str, path: str = "$") -> tuple[str, ...]:
        """The values of a job id, in the order of the components.

        Raises:
            InvalidError: it does not fit the template.
        """
        if len(job_id) > LONGEST_JOB_ID:
            raise InvalidError(path, f"must have at most {LONGEST_JOB_ID} characters but has {len(job_id)}")
        values = tuple(job_id.split(self.delimiter, len(self.components) - 1))
        if len(values) < len(self.components):
            raise InvalidError(path, f"{abridge(job_id)} does not fit the template {self}")
        for index, value in enumerate(values):
            if (problem := self.problem(index, value)) is not None:
                raise InvalidError(path, f"{abridge(job_id)} does not fit the template {self}: {problem}")
        return values

    def canonical(self, job_id: str, path: str = "$") -> str:
        """The job id that people mean by this one: its values are converted by the validators.

        Raises:
            InvalidError: it does not fit the template.
        """
        values = job_id[: LONGEST_JOB_ID + 1].split(self.delimiter, len(self.components) - 1)
        if not self.validators or len(job_id) > LONGEST_JOB_ID or len(values) < len(self.components):
            self.parts(job_id, path)
            return job_id
        try:
            found = [self._convert(name, each) for name, each in zip(self.components, values, strict=True)]
            for index, value in enumerate(found):
                if (problem := self.problem(index, value)) is not None:
                    raise InvalidError(path, problem)
        except InvalidError as exc:
            raise InvalidError(path, f"{abridge(job_id)} does not fit the template {self}: {exc.reason}") from exc
        self.parts(self.job_id(found), path)
        return self.job_id(found)

    def _convert(self, name: str, value: str) -> str:
        """The value after its validator.

        Raises:
            InvalidError: it is refused.
        """
        validator = self.validators.get(name)
        if validator is None or not value:
            return value
        try:
            found = validator(value)
            text = value if found is True else str(found)
        except Exception as exc:  # third-party code
            why = f"the validator of '{name}' refuses {abridge(value)}: {type(exc).__name__}: {exc}"
            raise InvalidError("$", why) from exc
        if found is None or found is False:
            raise InvalidError("$", f"the validator of '{name}' refuses {abridge(value)}")
        return text

    def job_id(self, parts: Sequence[str]) -> str:
        """The job id of these values, which `fits` accepts."""
        return self.delimiter.join(parts)

    def fits(self, index: int, value: str) -> bool:
        """Whether the component at `index` can have the value."""
        return self.problem(index, value) is None

    def problem(self, index: int, value: str) -> str | None:
        """Why the component at `index` cannot have the value; None when it can."""
        name = self.components[index]
        if not value:
            return f"'{name}' is empty"
        if not value.isprintable():
            return f"'{name}' holds control characters: {abridge(value)}"
        if self.delimiter in value and index < len(self.components) - 1:
            return (
                f"'{name}' holds the delimiter '{self.delimiter}', which only the last component may: {abridge(value)}"
            )
        match self.kinds.get(name, ComponentKind.TEXT):
            case ComponentKind.INTEGER if not _DIGITS.fullmatch(value) or value == "-0":
                return f"'{name}' must be a whole number, without leading zeros, but is {abridge(value)}"
            case ComponentKind.DATE if moment_of(value, ComponentKind.DATE) is None:
                return f"'{name}' must be a day as YYYYMMDD but is {abridge(value)}"
            case ComponentKind.TIME if moment_of(value, ComponentKind.TIME) is None:
                return f"'{name}' must be an instant as YYYYMMDDTHHMMSS but is {abridge(value)}"
            case _:
                return self._refusal(name, value)

    def _refusal(self, name: str, value: str) -> str | None:
        """Why the validator of a component does not leave the value as it is; None when it does."""
        try:
            text = self._convert(name, value)
        except InvalidError as exc:
            return exc.reason
        return None if text == value else f"'{name}' must be {abridge(text)}, as its validator writes {abridge(value)}"


def moment_of(value: str, kind: ComponentKind) -> datetime | None:
    """The instant (UTC) that a value of a day or an instant names, of a day its first; None when it names none."""
    form, layout = (_DATE, DAY) if kind is ComponentKind.DATE else (_TIME, INSTANT)
    if not form.fullmatch(value):
        return None
    try:
        return datetime.strptime(value, layout).replace(tzinfo=UTC)
    except ValueError:
        return None
