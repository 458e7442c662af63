"""What a file of DAGs does not say, and a person does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class AirflowAnswers:
    """What a file of DAGs does not say.

    Attributes:
        version: 2 or 3, of Airflow; 0: as the imports of the file suggest.
        pools: slots by pool.
        variables: values of Airflow's variables.
        programs: programs in place of those of the import, by `app.task` or `task`.
    """

    version: int = 0
    pools: Mapping[str, int] = field(default_factory=dict[str, int])
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    programs: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def program(self, app: str, task: str) -> Any:
        """The given program of a task; None: there is none."""
        return self.programs.get(f"{app}.{task}", self.programs.get(task))
