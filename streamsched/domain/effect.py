"""Effects: what a fold asks the shell to do. They become visible together with the state that forgets them."""

from __future__ import annotations

from dataclasses import dataclass

from streamsched.domain.job import ReadyJob


@dataclass(frozen=True, slots=True)
class Launch:
    """The schedule is satisfied: append the job to topic `launch`."""

    job: ReadyJob


Effect = Launch
