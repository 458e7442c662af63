"""`streamsched dapr`: jobs of Dapr's API, and the endpoint that serves it."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from streamsched.cli.group import new_group
from streamsched.dialects.dapr.commands import job


def commands() -> typer.Typer:
    """The commands of `streamsched dapr`."""
    app = new_group("Serves Dapr's jobs API to an app, and schedules and shows jobs.")
    app.add_typer(job.commands(), name="job")
    app.command("serve")(serve)
    return app


def serve(
    *,
    app_id: Annotated[str | None, typer.Option(help="Id of the app. Default: STREAMSCHED_DAPR_APP_ID.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Namespace of the app. Default: default.")] = None,
    host: Annotated[str | None, typer.Option(help="Listen address. Default: 127.0.0.1.")] = None,
    http_port: Annotated[
        int | None, typer.Option(help="Port of the HTTP API; 0: any free port. Default: 3500.")
    ] = None,
    grpc_port: Annotated[
        int | None, typer.Option(help="Port of the gRPC API; 0: any free port. Default: 50001.")
    ] = None,
    app: Annotated[
        str | None,
        typer.Option(
            help="Where the app gets its jobs, as launchers reach it, such as grpc://127.0.0.1:3010 or "
            "http://127.0.0.1:8080; several separated by commas."
        ),
    ] = None,
    strict: Annotated[
        bool | None, typer.Option("--strict/--no-strict", help="Answer as Dapr does, such as 500 for a missing job.")
    ] = None,
) -> None:
    """Serves Dapr's jobs API for one app, in place of its sidecar: HTTP and gRPC.

    Any number of endpoints can serve an app; launchers deliver its jobs. Settings are in STREAMSCHED_*.
    """
    from streamsched.dialects.dapr.loops import run_dapr

    run_dapr(
        os.environ,
        dapr_app_id=app_id,
        dapr_namespace=namespace,
        dapr_host=host,
        dapr_http_port=http_port,
        dapr_grpc_port=grpc_port,
        dapr_app=app,
        dapr_strict=strict,
    )
