"""Messages of `dapr.proto.scheduler.v1`, between a sidecar and Dapr's scheduler. The wheel of the SDK lacks them, so
they are made from this table: message → fields as `label type name number`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from dapr.proto.common.v1 import common_pb2
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

PACKAGE: Final = "dapr.proto.scheduler.v1"

#: A label in brackets is the name of a `oneof`; `?` is an optional field, `*` a repeated one.
_MESSAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "Job": (
        "? string schedule 1",
        "? uint32 repeats 2",
        "? string due_time 3",
        "? string ttl 4",
        "- Any data 5",
        "? Policy failure_policy 6",
    ),
    "TargetJob": (),
    "TargetActorReminder": ("- string id 1", "- string type 2"),
    "JobTargetMetadata": ("[type] TargetJob job 1", "[type] TargetActorReminder actor 2"),
    "JobMetadata": ("- string app_id 1", "- string namespace 2", "- JobTargetMetadata target 3"),
    "WatchJobsRequestInitial": (
        "- string app_id 1",
        "- string namespace 2",
        "* string actor_types 3",
        "* uint32 accept_job_types 4",
    ),
    "WatchJobsRequestResult": ("- uint64 id 1", "- uint32 status 2"),
    "WatchJobsRequest": ("[kind] WatchJobsRequestInitial initial 1", "[kind] WatchJobsRequestResult result 2"),
    "WatchJobsResponse": ("- string name 1", "- uint64 id 2", "- Any data 3", "- JobMetadata metadata 4"),
    "ScheduleJobRequest": ("- string name 1", "- Job job 2", "- JobMetadata metadata 3", "- bool overwrite 4"),
    "ScheduleJobResponse": (),
    "GetJobRequest": ("- string name 1", "- JobMetadata metadata 2"),
    "GetJobResponse": ("- Job job 1",),
    "DeleteJobRequest": ("- string name 1", "- JobMetadata metadata 2"),
    "DeleteJobResponse": (),
    "NamedJob": ("- string name 1", "- JobMetadata metadata 2", "- Job job 3"),
    "ListJobsRequest": ("- JobMetadata metadata 1",),
    "ListJobsResponse": ("* NamedJob jobs 1",),
    "WatchHostsRequest": (),
    "Host": ("- string address 1",),
    "WatchHostsResponse": ("* Host hosts 1",),
    "DeleteByMetadataRequest": ("- JobMetadata metadata 1", "? bool id_prefix_match 2"),
    "DeleteByMetadataResponse": (),
    "DeleteByNamePrefixRequest": ("- string name_prefix 1", "- JobMetadata metadata 2"),
    "DeleteByNamePrefixResponse": (),
}
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
    "bool": _Field.TYPE_BOOL,
}
_FOREIGN: Final = {"Any": any_pb2.Any.DESCRIPTOR, "Policy": common_pb2.JobFailurePolicy.DESCRIPTOR}


@lru_cache(1)
def scheduler_messages() -> Mapping[str, Any]:
    """The message classes by name."""
    pool = descriptor_pool.Default()  # that of the messages which these contain
    file = descriptor_pb2.FileDescriptorProto(
        name="streamsched/dapr_scheduler.proto",
        package=PACKAGE,
        syntax="proto3",
        dependency=["google/protobuf/any.proto", common_pb2.DESCRIPTOR.name],
    )
    for name, fields in _MESSAGES.items():
        _add(file.message_type.add(name=name), fields)
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _MESSAGES
    }


def _add(message: descriptor_pb2.DescriptorProto, fields: tuple[str, ...]) -> None:
    groups: dict[str, int] = {}
    for line in fields:
        label, kind, name, number = line.split()
        field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type = _Field.TYPE_MESSAGE
            field.type_name = f".{_FOREIGN[kind].full_name if kind in _FOREIGN else f'{PACKAGE}.{kind}'}"
        if label == "*":
            field.label = _Field.LABEL_REPEATED
        elif label.startswith("["):
            if label not in groups:
                groups[label] = len(message.oneof_decl)
                message.oneof_decl.add(name=label.strip("[]"))
            field.oneof_index = groups[label]
    for field, line in zip(message.field, fields, strict=True):  # made after the others, as protobuf requires
        if line.startswith("?"):
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
