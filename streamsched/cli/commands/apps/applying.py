"""`streamsched plan` and `apply`: files of apps against what a server has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.commands.apps.app_files import Targets, files_of, load_apps
from streamsched.cli.commands.deploy import (
    DIFFERS,
    STORE_TIMEOUT,
    WAIT,
    ElsewhereOption,
    KeepOption,
    NamespaceOption,
    await_log,
    origin_of,
    print_former_origin,
    print_server,
)
from streamsched.cli.confirmation import DryRunOption, YesOption, confirmed_change
from streamsched.cli.connection.waiting import notice
from streamsched.cli.naming import short_name
from streamsched.cli.output import Format, FormatOption, console, count_text, print_structured
from streamsched.cli.preview import print_preview
from streamsched.cli.server import UrlOption, ask
from streamsched.domain.errors import InvalidError

PruneOption = Annotated[
    bool,
    typer.Option(
        "--prune", help="Delete programs, schedules and tasks that an app has on the server and not in its file."
    ),
]
#: Members of a plan that list changes.
_KINDS: Final = ("programs", "schedules")
#: Between the plans of two apps in the token of both.
_BETWEEN: Final = ","


class AppFile:
    """An app in a file, and the requests about it."""

    def __init__(self, file: str, app: Any, *, prune: bool, keep: bool | None, url: str) -> None:
        from streamsched.codec.schedules.schedule import app_to_json

        self.name, self.origin, self.body = short_name(str(app.ref)), origin_of(file), app_to_json(app)
        self._path = f"/v1/apps/{app.ref.namespace}/{app.ref.app}"
        self._params: dict[str, Any] = {"prune": prune, "keep": keep, "updateSchedules": True}
        self._url, self._file = url, file

    def plan(self) -> dict[str, Any]:
        """The plan of the server.

        Raises:
            InvalidError: the server refuses the app; the path begins with its file.
        """
        params = {**self._params, "dry_run": True}
        try:
            return ask("PUT", self._path, url=self._url, params=params, body=self.body, timeout=STORE_TIMEOUT)
        except InvalidError as exc:
            raise InvalidError(f"{self._file} {exc.path}", exc.reason) from exc

    def change(self, plan: str) -> dict[str, Any]:
        """Applies the plan, and waits until the log has acknowledged it."""
        params = {**self._params, "plan": plan, "origin": self.origin, "wait": WAIT}
        changed = ask("PUT", self._path, url=self._url, params=params, body=self.body, timeout=STORE_TIMEOUT)
        if changed.get("pending"):
            await_log(self.name, changed, self._url)
        return changed


def plan(
    targets: Targets,
    *,
    namespace: NamespaceOption = "",
    prune: PruneOption = False,
    keep: KeepOption = None,
    elsewhere: ElsewhereOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Shows what `apply` would create, change and delete, field by field, and what would be lost. Changes nothing.

    Exit code 0: nothing would change; 6: something would change.
    """
    planned = _join_plans(_apps(targets, namespace, prune=prune, keep=keep, elsewhere=elsewhere, url=url))
    if not print_structured(planned, output):
        _show(planned, url)
    if planned["differs"]:
        raise typer.Exit(DIFFERS)


def apply(
    targets: Targets,
    *,
    namespace: NamespaceOption = "",
    prune: PruneOption = False,
    keep: KeepOption = None,
    elsewhere: ElsewhereOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Creates and updates the programs and schedules of app files, after showing the plan.

    What an app has on the server and not in its file stays, and with --prune is deleted. If something would be deleted,
    or accumulated events or waiting jobs would be lost, the command asks for confirmation at a terminal; without a
    terminal it needs --yes (otherwise exit code 7). All files are read and planned before the first is applied; each
    app is applied as a whole, one after another.
    """
    apps = _apps(targets, namespace, prune=prune, keep=keep, elsewhere=elsewhere, url=url)
    done: dict[str, dict[str, Any]] = {}

    def change(token: str) -> list[dict[str, Any]]:
        plans = token.split(_BETWEEN)
        for app, expected in zip(apps, plans, strict=True):
            changed, former = app.change(expected), done.get(app.name)
            if former is not None:  # applied before the plan of another app was made again
                changed |= {kind: [*former[kind], *changed[kind]] for kind in _KINDS}
            done[app.name] = changed
        return list(done.values())

    changed = confirmed_change(
        lambda: _join_plans(apps),
        change,
        yes=yes,
        dry_run=dry_run,
        output=output,
        show=lambda planned: _show(planned, url),
        always_shown=True,
    )
    if changed is None:
        return
    if print_structured(changed, output):
        return
    for app in changed:
        counts = [count_text(len(app[kind]), kind[:-1]) for kind in _KINDS if app[kind]]
        what = f"{' and '.join(counts)} changed" if counts else "nothing has changed"
        console().print(f"{short_name(app['app'])} is applied: {what}", markup=False)


def _apps(
    targets: list[str], namespace: str, *, prune: bool, keep: bool | None, elsewhere: bool, url: str
) -> list[AppFile]:
    from streamsched.define.bundling import missing_files

    files = files_of(targets)
    with notice(f"reading {count_text(len(files), 'file')}"):
        apps = list(load_apps(files, namespace))
    for _, app in apps if not elsewhere else ():
        missing_files(app)
    return [AppFile(file, app, prune=prune, keep=keep, url=url) for file, app in apps]


def _join_plans(apps: list[AppFile]) -> dict[str, Any]:
    """The plans of all apps as one."""
    plans = [{**app.plan(), "origin": app.origin} for app in apps]
    return {
        "apps": plans,
        "differs": any(each["differs"] for each in plans),
        "loses": any(each["loses"] for each in plans) or any(_deleted_names({"apps": plans})),
        "plan": _BETWEEN.join(each["plan"] for each in plans),
    }


def _show(planned: Mapping[str, Any], url: str) -> None:
    """Prints the server, what would be deleted, the plan of each app, and a summary."""
    out, apps = console(), planned["apps"]
    print_server(short_name(apps[0]["app"]) if len(apps) == 1 else count_text(len(apps), "app"), apps[0], url)
    deleted = list(_deleted_names(planned))
    if deleted:
        out.print("would be deleted:", style="red")
        for line in deleted:
            out.print(f"  {line}", style="red", markup=False)
    for each in apps:
        if len(apps) > 1 and not each["differs"]:
            out.print(f"{short_name(each['app'])}: nothing would change", style="dim", markup=False)
            continue
        if len(apps) > 1:
            out.print(f"{short_name(each['app'])}:", style="bold", markup=False)
        print_preview(each)
        print_former_origin(each, each["origin"])
    counts: dict[str, int] = {}
    for each in apps:
        for change in (*each["programs"], *each["schedules"]):
            counts[change["action"]] = counts.get(change["action"], 0) + 1
    parts = [f"{counts.get(action, 0)} {word}" for action, word in _ACTIONS]
    out.print(f"plan: {', '.join(parts)}", style="bold")


#: Actions of a plan in the order of the summary, with their words there.
_ACTIONS: Final = (("created", "to create"), ("updated", "to change"), ("deleted", "to delete"))


def _deleted_names(planned: Mapping[str, Any]) -> Iterator[str]:
    for each in planned["apps"]:
        for kind in _KINDS:
            for change in each[kind]:
                if change["action"] == "deleted":
                    yield f"{kind[:-1]} {short_name(change['id'])}"
