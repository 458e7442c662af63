"""Room for the process of a run: a job is admitted only when a launcher can start its run now, so that a run which only
waits holds no slot that another could use. Pure.

It is no constraint of a schedule, so neither a command of an operator nor a timeout overrides it. The job waits, and a
launcher wakes it when it is next (`constraints.process_room`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from streamsched.domain.constraints.process_room import ProcessKind, ProcessRoom, RoomTurn, Share, ShareTurn
from streamsched.domain.decisions.admission import Satisfied, WaitFor
from streamsched.domain.decisions.decision import Admit, Decision, DecisionInput, DueJob, wait_beside_constraints
from streamsched.domain.decisions.namespace_quota import within_quota
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.schedule import Executable, InlineExecutable


def process_kind(executable: Executable) -> ProcessKind | None:
    """Of which kind the process of a run is; None: a launcher executes it itself."""
    if isinstance(executable, InlineExecutable):
        return None
    if isinstance(executable, SparkJob) and executable.deploy_mode is DeployMode.CLUSTER:
        return ProcessKind.CLUSTER
    return ProcessKind.HOST


def room_verdict(room: ProcessRoom, share: Share, turn: ShareTurn) -> Satisfied | WaitFor:
    """Whether a run of this share may be started now."""
    if room.admits(share, turn):
        return Satisfied(str(room))
    next_ones = "" if room.claims >= room.places else ", and jobs before this one want the others"
    return WaitFor(("room",), f"no room: {room}{next_ones}")


def within_room_and_quota(
    decision: Decision, due_job: DueJob, decision_input: DecisionInput, timeout: datetime | None, now: datetime
) -> Decision:
    """The decision, where a job is admitted only within the quota of its namespace, and when there is room for its
    process. `timeout`: when its wait for constraints runs out (UTC), so that it is judged again then.
    """
    decision = within_quota(decision, due_job, decision_input.resources, timeout, now)
    rooms = decision_input.resources.rooms
    if not rooms or not isinstance(decision, Admit) or decision_input.program is None or due_job.schedule is None:
        return decision
    kind = process_kind(decision_input.program.executable)
    if kind is None or kind not in rooms:
        return decision
    share = Share(decision_input.program.ref.namespace, due_job.pool or "")
    turn = ShareTurn(decision_input.queue_position(due_job).at, due_job.job)
    verdict = room_verdict(rooms[kind], share, turn)
    room_turn = RoomTurn(kind, share, turn)
    if isinstance(verdict, Satisfied):
        return replace(decision, room=room_turn)
    return replace(wait_beside_constraints(due_job, due_job.schedule, verdict, timeout, now), room=room_turn)
