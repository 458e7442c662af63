"""`streamsched data`: the data folder of `streamsched dev` as an archive, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, console, print_structured
from streamsched.cli.server import folder_here

if TYPE_CHECKING:
    from streamsched.roles.embedded import ArchiveDescription

DataOption = Annotated[
    Path | None, typer.Option("--data-dir", help="The data folder. Default: STREAMSCHED_DATA_DIR, else .streamsched.")
]
Archive = Annotated[Path, typer.Argument(metavar="FILE", help="The archive, such as streamsched.tar.gz.")]


def commands() -> typer.Typer:
    """The commands of `streamsched data`."""
    app = new_group("Backs up, restores and moves the data folder of a stopped `streamsched dev`.")
    app.command("backup")(backup)
    app.command("restore")(restore)
    return app


def backup(archive: Archive, *, data_dir: DataOption = None, output: FormatOption = Format.TABLE) -> None:
    """Writes the whole data folder into one file. `streamsched dev` must be stopped, and cannot start meanwhile.

    The file holds tokens and logs: only its owner can read it.
    """
    from streamsched.roles.embedded import back_up

    found = back_up(data_dir or folder_here(), archive)
    _print({"archive": str(archive), "bytes": archive.stat().st_size, **_archive_fields(found)}, output)


def restore(archive: Archive, *, data_dir: DataOption = None, output: FormatOption = Format.TABLE) -> None:
    """Makes a data folder of an archive, on this or another machine of the same kind. The folder must be new or empty;
    `streamsched dev --data-dir` continues there with what was stored.
    """
    from streamsched.roles.embedded import restore as restore_folder

    folder = data_dir or folder_here()
    found = restore_folder(archive, folder)
    _print({"restored": str(folder), **_archive_fields(found)}, output)


def _archive_fields(found: ArchiveDescription) -> dict[str, Any]:
    return {"folder": found.folder, "version": found.version, "madeAt": found.made_at}


def _print(result: dict[str, Any], output: FormatOption) -> None:
    if print_structured(result, output):
        return
    out = console()
    if "archive" in result:
        out.print(f"{result['archive']} holds {result['folder']}: {result['bytes']:,} bytes", markup=False)
        out.print("  it holds tokens and logs; only you can read it")
        return
    out.print(
        f"{result['restored']} holds what {result['folder']} held at {result['madeAt']}, of streamsched "
        f"{result['version']}",
        markup=False,
    )
    out.print(
        f"  next: `streamsched dev --data-dir {result['restored']}`; programs and data outside of it", markup=False
    )
    out.print("  must be where they were: the archive holds neither")
