"""Settings of Dapr's jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamsched.setting_values import SettingGroup, port, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class DaprSettings(SettingGroup):
    """Jobs of Dapr apps.

    Attributes:
        app_id: app whose Dapr sidecar this process replaces; empty: none. Its jobs are in queue
            `dapr.<dapr_namespace>.<dapr_app_id>`.
        namespace: namespace of the app.
        host, http_port, grpc_port: address of Dapr's jobs API; port 0: any free port.
        app: where the app gets its jobs: comma-separated addresses of its instances, as launchers reach them, such as
            `grpc://127.0.0.1:3010` or `http://127.0.0.1:8080`; empty: none here.
        api_token: token that clients of that API must send; empty: none.
        app_token: token that is sent to the app; empty: none.
        scheduler: `host:port` at which this launcher is Dapr's scheduler, as sidecars reach it; empty: it is none.
            Without TLS.
        strict: answers as Dapr where this product would answer better: 500 for a missing job, for example.
    """

    VARIABLES: ClassVar[str] = "dapr_"

    app_id: str = ""
    namespace: str = "default"
    host: str = "127.0.0.1"
    http_port: int = setting(3500, port("any free one"))
    grpc_port: int = setting(50001, port("any free one"))
    app: str = ""
    api_token: str = setting("", secret=True)
    app_token: str = setting("", secret=True)
    scheduler: str = ""
    strict: bool = False
