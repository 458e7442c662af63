"""Output of the demo: live on a terminal, else plain lines."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pandas as pd
from driver.story import ENDED, Counted, Happened, Moment, program, short, when
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

COLOURS = {"event": "cyan", "job": "yellow", "run": "green"}
STATES = {"COMPLETED": "green", "FAILED": "red", "KILLED": "red", "LOST": "red", "RUNNING": "bold cyan"}


class Screen:
    """Shows successive states."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._printed: set[str] = set()
        self._spinner = Spinner("dots")

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within the block, `show` redraws in place if this is a terminal."""
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, refresh_per_second=8, transient=True) as self._live:
            yield
        self._live = None

    def show(self, moment: Moment, *, landing: str) -> None:
        """Shows a state: redraws it, or prints the lines that were not printed before."""
        if self._live is not None:
            self._live.update(self._drawn(moment, landing))
            return
        for line in _lines(moment, landing):
            if line not in self._printed:
                self._printed.add(line)
                self.console.print(line, highlight=False, markup=False)

    def answer(self, table: pd.DataFrame) -> None:
        """Prints the table of the report."""
        shown = Table(title="Delay at departure, New York 2013", title_justify="left", title_style="bold")
        for name in ("measure", "band"):
            shown.add_column(name)
        for name in ("flights", "cancelled", "mean delay"):
            shown.add_column(name, justify="right")
        shown.add_column("")
        most = table["mean_delay"].max()
        for measure, part in table.groupby("measure", sort=False):
            for index, row in enumerate(part.to_dict("records")):
                bar = "█" * max(1, round(13 * row["mean_delay"] / most))
                name = str(measure) if index == 0 else ""
                flights, cancelled, delay = row["flights"], row["cancelled_percent"], row["mean_delay"]
                cells = name, row["band"], f"{flights:,}", f"{cancelled} %", f"{delay} min"
                shown.add_row(*cells, Text(bar, "blue"))
            shown.add_section()
        self.console.print(shown)

    def story(self, happened: Sequence[Happened]) -> None:
        """Prints the time line, in seconds since its start."""
        self.console.print("\n[bold]What happened[/]   (seconds since the first event)")
        start = happened[0].at
        for each in happened:
            seconds = (each.at - start).total_seconds()
            kind = Text(f"{each.kind:<6}", COLOURS[each.kind])
            self.console.print(Text.assemble(f"  {seconds:7.2f}  ", kind, each.text), highlight=False, soft_wrap=True)

    def _drawn(self, moment: Moment, landing: str) -> RenderableType:
        self._spinner.update(text=Text(landing, "dim"))
        counting = Table.grid(padding=(0, 2))
        fired = sum(job["schedule"].endswith("weekly-join") for job in moment.jobs)
        counting.add_row("[bold]weekly-join[/] waits for", "", f"[dim]fired {fired} ×[/]" if fired else "")
        for input_ in moment.counted:
            bar = ProgressBar(total=input_.need, completed=min(input_.have, input_.need), width=28)
            counting.add_row(f"  7 new days of {input_.what}", bar, f"{input_.have} of {input_.need}")
        running = Table.grid(padding=(0, 2))
        running.add_row("[bold]runs[/]", "", "")
        for run in moment.runs:
            state = Text(run["state"].lower(), STATES.get(run["state"], "yellow"))
            running.add_row(f"  {program(run)}", state, f"[dim]{_seconds(run)}[/]", f"[dim]{short(run['id'])}[/]")
        if not moment.runs:
            running.add_row("  [dim]none yet[/]", "", "")
        return Group(counting, "", running, "", self._spinner)


def _lines(moment: Moment, landing: str) -> Iterator[str]:
    """A state as lines; jobs and runs in chronological order."""
    yield landing
    if any(each.have for each in moment.counted):
        yield "weekly-join waits: " + ", ".join(_of(each) for each in moment.counted)
    news = [(when(job["satisfiedAt"]), f"job {short(job['id'])} is ready") for job in moment.jobs]
    for run in moment.runs:
        since = run["endedAt"] or run["startedAt"] or run["createdAt"]
        news.append((when(since), f"{program(run)} is {run['state'].lower()} ({short(run['id'])})"))
    for _, line in sorted(news):
        yield line


def _of(each: Counted) -> str:
    return f"{each.what} {each.have} of {each.need}"


def _seconds(run: Mapping[str, Any]) -> str:
    if not run["startedAt"]:
        return ""
    end = when(run["endedAt"]) if run["state"] in ENDED and run["endedAt"] else datetime.now(UTC)
    return f"{(end - when(run['startedAt'])).total_seconds():.0f} s"
