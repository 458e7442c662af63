"""What Rich prints at a terminal: characters in texts that would control it are shown as escapes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook
from rich.measure import Measurement
from rich.segment import Segment

from streamsched.cli.table import plain_text


class VisibleText(RenderHook):
    """Rich's own control of the terminal stays."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Wraps each, so that its control characters are shown as escapes when it is rendered."""
        return [_Visible(each) for each in renderables]


class _Visible:
    def __init__(self, shown: ConsoleRenderable) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._shown, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(plain_text(segment.text), segment.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._shown)
