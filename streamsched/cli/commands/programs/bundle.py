"""`streamsched bundle`: the stored folders of apps; and the upload of one by `streamsched deploy --bundle`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from streamsched.cli.group import new_group
from streamsched.cli.output import console
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.server import ask
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import InvalidError

if TYPE_CHECKING:
    from streamsched.domain.schedules.app import AppDefinition

#: Largest bundle that is packed; the server has a limit of its own.
_MOST: Final = 1024 * 1024 * 1024
#: Seconds.
_UPLOAD_TIMEOUT: Final = 600.0


def commands() -> typer.Typer:
    """The commands of `streamsched bundle`."""
    app = new_group("Shows the bundles of programs, which `streamsched deploy --bundle` stores.")
    app.command("list")(list_bundles)
    return app


@list_command(
    Listing(
        "bundles",
        (
            Column("digest", kind=ColumnKind.ID),
            "bytes",
            "files",
            "programs",
            Column("createdAt", "created", ColumnKind.TIME),
        ),
        "no bundles yet",
        paged=False,
    )
)
def list_bundles(
    *, namespace: Annotated[str, typer.Option("--namespace", help="Namespace of the bundles.")] = "default"
) -> Query:
    """Lists bundles, the newest first. Those to which no program refers are removed a day after their upload."""
    return Query(_path(namespace))


def bundled_app(app: AppDefinition, folder: Path, url: str, *, upload: bool, quiet: bool) -> AppDefinition:
    """The app with its Spark and Python programs in the bundle of the folder, which is uploaded if the server has not
    got it. An equal folder gives an equal app.

    Raises:
        InvalidError: there is nothing to bundle, the folder cannot be bundled, or its bundle is larger than the server
            accepts.
    """
    import tempfile

    from streamsched.define.bundling import move_into_bundle, needs_bundle
    from streamsched.process.bundle_archive import folder_files, pack

    if not needs_bundle(app):
        raise InvalidError("--bundle", f"{app.ref} has no Spark or Python program")
    files = folder_files(folder, most_bytes=_MOST)
    with tempfile.TemporaryFile() as archive:
        try:
            digest = pack(folder, files, archive)
        except OSError as exc:
            raise InvalidError("--bundle", f"{exc.filename or folder} cannot be read: {exc.strerror or exc}") from exc
        if upload:
            path = f"{_path(app.ref.namespace)}/{digest}"
            known = ask("POST", f"{path}/use", url=url)
            if known["exists"]:
                return move_into_bundle(app, folder, digest)
            size = archive.seek(0, 2)
            if size > known["limit"]:
                raise InvalidError(
                    "--bundle",
                    f"{folder} is a bundle of {size:,} bytes, but the server accepts at most {known['limit']:,} "
                    "(STREAMSCHED_BUNDLE_LIMIT)",
                )
            archive.seek(0)
            content = archive.read()
            stored = ask(
                "PUT", path, url=url, content=content, content_type="application/x-tar", timeout=_UPLOAD_TIMEOUT
            )
            if not quiet:
                text = f"bundle {digest[:12]}: {stored['files']} files, {stored['bytes']:,} bytes"
                console().print(text, markup=False, highlight=False)
    return move_into_bundle(app, folder, digest)


def _path(namespace: str) -> str:
    return f"/v1/namespaces/{quote(namespace, safe='')}/bundles"
