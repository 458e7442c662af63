"""`streamsched deploy` and `diff`: deploys an app's definition from a Python, YAML or JSON file."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from streamsched.cli.commands.programs.bundle import bundled_app
from streamsched.cli.confirmation import DryRunOption, YesOption, confirmed_change
from streamsched.cli.naming import short_name
from streamsched.cli.output import Format, FormatOption, console, count_text, print_structured
from streamsched.cli.preview import print_preview
from streamsched.cli.server import UrlOption, ask, describe_server
from streamsched.domain.errors import UnavailableError

#: Exit code of `diff` when something would change.
DIFFERS: Final = 6

#: Seconds: longest request that stores an app; longest wait for the log in one request; longest time without progress.
STORE_TIMEOUT: Final = 600.0
WAIT: Final = 2.0
_STALLED: Final = 30.0

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A Python, YAML or JSON file, FILE.py:ATTRIBUTE, or MODULE[:ATTRIBUTE].")
]
UpdateOption = Annotated[
    bool | None,
    typer.Option(
        "--update-schedules/--no-update-schedules",
        help="Update schedules that exist. Unchanged ones keep their accumulated events in any case. Default: the "
        "server's `STREAMSCHED_UPDATE_SCHEDULES`, which is `true` unless its owner changed it.",
    ),
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", help="Namespace of the app, where its file names none, such as `staging`.")
]
ElsewhereOption = Annotated[
    bool, typer.Option("--elsewhere", help="Do not check that the files of Spark programs exist on this machine.")
]
KeepOption = Annotated[
    bool | None,
    typer.Option(
        "--keep/--reset",
        help="Changed schedules keep the accumulated events and waiting jobs that fit, or drop them. Default: "
        "`on_change` of each schedule; a change that does not touch what counts keeps.",
    ),
]
BundleOption = Annotated[
    bool,
    typer.Option(
        "--bundle",
        help="Store the folder of the file with the app, so that launchers on other machines execute its Spark and "
        "Python programs from a copy.",
    ),
]


def deploy(
    target: Target,
    *,
    namespace: NamespaceOption = "",
    update_schedules: UpdateOption = None,
    keep: KeepOption = None,
    bundle: BundleOption = False,
    elsewhere: ElsewhereOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Deploys an app: creates, updates and deletes its programs and schedules to match the definition.

    Prints the plan first. If accumulated events, waiting jobs or schedules would be lost, it asks for confirmation at a
    terminal; without a terminal it needs --yes (otherwise exit code 7).
    """
    from streamsched.codec.schedules.schedule import app_to_json
    from streamsched.define.bundling import missing_files
    from streamsched.define.loading import load_app_and_folder

    app, folder = load_app_and_folder(target, namespace=namespace)
    if not elsewhere:
        missing_files(app)
    if bundle:
        app = bundled_app(app, folder, url, upload=not dry_run, quiet=output.is_structured)
    body = app_to_json(app)
    path, origin = f"/v1/apps/{app.ref.namespace}/{app.ref.app}", origin_of(target)
    params = {"updateSchedules": update_schedules, "keep": keep}

    def plan() -> Any:
        return ask("PUT", path, url=url, params={**params, "dry_run": True}, body=body, timeout=STORE_TIMEOUT)

    def change(token: str) -> Any:
        query = {**params, "plan": token, "origin": origin, "wait": WAIT}
        return ask("PUT", path, url=url, params=query, body=body, timeout=STORE_TIMEOUT)

    def show(planned: Mapping[str, Any]) -> None:
        print_plan(planned, origin, url)

    changed = confirmed_change(plan, change, yes=yes, dry_run=dry_run, output=output, show=show, always_shown=True)
    if changed is None:
        return
    if changed.get("pending"):
        await_log(short_name(str(app.ref)), changed, url)
    if print_structured(changed, output):
        return
    kinds = [kind for kind in ("programs", "schedules", "expectations") if changed.get(kind)]
    counts = [count_text(len(changed[kind]), kind[:-1]) for kind in kinds]
    counts += ["recipients of failures"] if changed.get("onFailure") else []
    done = f"{' and '.join(counts)} changed" if counts else "nothing has changed"
    console().print(f"[bold]{short_name(str(app.ref))}[/] is deployed: {done}")


def diff(
    target: Target,
    *,
    namespace: NamespaceOption = "",
    update_schedules: UpdateOption = None,
    keep: KeepOption = None,
    bundle: BundleOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Shows what `deploy` would change, field by field, and what would be lost. Changes nothing.

    Exit code 0: nothing would change; 6: something would change.
    """
    from streamsched.codec.schedules.schedule import app_to_json
    from streamsched.define.loading import load_app_and_folder

    app, folder = load_app_and_folder(target, namespace=namespace)
    if bundle:
        app = bundled_app(app, folder, url, upload=False, quiet=True)
    params = {"updateSchedules": update_schedules, "keep": keep, "dry_run": True}
    path = f"/v1/apps/{app.ref.namespace}/{app.ref.app}"
    preview = ask("PUT", path, url=url, params=params, body=app_to_json(app))
    if not print_structured(preview, output):
        print_plan(preview, origin_of(target), url)
    if preview["differs"]:
        raise typer.Exit(DIFFERS)


def origin_of(target: str) -> str:
    """The file of a target as `host:path`, or its module as `host:module`."""
    source = target.partition(":")[0]
    path = Path(source)
    return f"{socket.gethostname()}:{path.resolve() if path.is_file() else source}"


def print_plan(planned: Mapping[str, Any], origin: str, url: str) -> None:
    """Prints the server and the plan, and warns when the app was last deployed from another file."""
    print_server(short_name(planned["app"]), planned, url)
    print_preview(planned)
    print_former_origin(planned, origin)


def print_server(what: str, planned: Mapping[str, Any], url: str) -> None:
    """Prints what the plan is about, and its server and installation."""
    out = console()
    out.print(f"{what} at {describe_server(url)}", markup=False)
    if planned.get("installation"):
        out.print(f"  installation: {planned['installation']}", markup=False)


def print_former_origin(planned: Mapping[str, Any], origin: str) -> None:
    """Warns when the app was last deployed from another file."""
    out, app = console(), short_name(planned["app"])
    before = planned.get("deployedFrom")
    if before and before != origin:
        out.print(f"{app} was last deployed from another file: {before}", style="yellow", markup=False)
        deleted = [short_name(each["id"]) for each in planned["schedules"] if each["action"] == "deleted"]
        if deleted:
            out.print("schedules of the app that are not in this file would be deleted:", style="yellow")
            for name in deleted:
                out.print(f"  {name}", style="yellow", markup=False)
            out.print("if this is another app, give it another name: App(...)", style="yellow", markup=False)


def await_log(app: str, changed: dict[str, Any], url: str) -> None:
    """Waits until the log has acknowledged the change; shows the progress on a terminal.

    Raises:
        UnavailableError: the log acknowledged no record for `_STALLED` seconds.
    """
    total = left = int(changed["pending"])
    stalls_at = time.monotonic() + _STALLED
    with console(stderr=True).status("") as status:
        while left:
            status.update(f"{app} is stored; the log has acknowledged {total - left} of {total} records")
            pending = int(ask("GET", f"/v1/changes/{changed['change']}", url=url, params={"wait": WAIT})["pending"])
            if pending < left:
                stalls_at = time.monotonic() + _STALLED
            elif time.monotonic() > stalls_at:
                raise UnavailableError(
                    f"{app} is stored, but the log has acknowledged none of the {left} remaining records for "
                    f"{_STALLED:g} s. The change takes effect when a launcher has relayed them: check with "
                    "`streamsched doctor` that one runs. Deploying again waits for the acknowledgement"
                )
            left = pending
    for name in ("change", "pending", "acknowledged"):
        changed.pop(name, None)
