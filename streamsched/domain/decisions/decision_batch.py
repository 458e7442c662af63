"""The programs of a batch, judged one after the other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from streamsched.domain.decisions.decision import Decision, DecisionInput, resources_after
from streamsched.domain.decisions.judge import NO_PLUGIN_VERDICTS, PluginVerdicts, judge
from streamsched.domain.decisions.resources import Resources


@dataclass(frozen=True, slots=True)
class DecidedProgram:
    """A decision input with one decision for each of its due jobs, in their order."""

    program: str
    input: DecisionInput
    decisions: Sequence[Decision]


def judge_programs(
    inputs: Mapping[str, DecisionInput],
    resources: Resources,
    *,
    now: datetime,
    plugin_verdicts: PluginVerdicts = NO_PLUGIN_VERDICTS,
) -> Sequence[DecidedProgram]:
    """Judges each program, in order; what the decisions about one take of the resources is gone for the next. `inputs`
    are without resources.
    """
    decided: list[DecidedProgram] = []
    for program, jobs in inputs.items():
        decision_input = jobs.with_resources(resources)
        decisions = judge(decision_input, now=now, plugin_verdicts=plugin_verdicts)
        resources = resources_after(resources, decision_input, decisions, now)
        decided.append(DecidedProgram(program, decision_input, decisions))
    return decided
