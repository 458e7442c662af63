"""Pictures as SVG, without other programs."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from streamsched.codec.graph.pictures.layers import layout
from streamsched.codec.graph.pictures.picture import Arrow, Box, Picture

_MARGIN: Final = 16.0
_HEIGHT: Final = 44.0
_STEP: Final = 92.0
#: Width of a character of the two lines, and most characters that are shown.
_CHARACTER: Final = 7.4
_LONGEST: Final = 60
_STYLE: Final = (
    "text{font:13px ui-sans-serif,system-ui,sans-serif;fill:#1f2328;text-anchor:middle}"
    ".detail,.label{font-size:11px;fill:#57606a}"
    "rect{fill:#fff;stroke-width:1.5}path{fill:none;stroke:#8c959f;stroke-width:1.2}.dashed{stroke-dasharray:5 4}"
)


def to_svg(picture: Picture) -> str:
    """A document of its own, on white."""
    widths = [_width(box) for box in picture.boxes]
    placed = layout(widths, [(arrow.parent, arrow.child) for arrow in picture.arrows])
    tops = {item: _MARGIN + number * _STEP for number, layer in enumerate(placed.layers) for item in layer}
    centres = [_MARGIN + centre for centre in placed.centres]
    width = max(placed.width, len(picture.note) * _CHARACTER) + 2 * _MARGIN
    height = 2 * _MARGIN + max(0, len(placed.layers) - 1) * _STEP + _HEIGHT + (24 if picture.note else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(picture.title)}</title><style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#8c959f;stroke:none"/></marker></defs>',
        '<rect width="100%" height="100%" style="fill:#fff"/>',
    ]
    for arrow, path in zip(picture.arrows, placed.paths, strict=True):
        parts.append(_arrow(arrow, [(centres[item], tops[item]) for item in path]))
    parts += [_box(box, centres[number], tops[number], widths[number]) for number, box in enumerate(picture.boxes)]
    if picture.note:
        parts.append(f'<text class="detail" x="{width / 2:.1f}" y="{height - 10:.1f}">{escape(picture.note)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _width(box: Box) -> float:
    return max(60.0, min(_LONGEST, max(len(box.title), len(box.detail))) * _CHARACTER + 20)


def _box(box: Box, centre: float, top: float, width: float) -> str:
    return (
        f"<g><title>{escape(f'{box.title} {box.detail}')}</title>"
        f'<rect x="{centre - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_HEIGHT:.0f}" rx="6" '
        f'stroke="{box.colour}"/>'
        f'<text x="{centre:.1f}" y="{top + 18:.1f}">{_cut_text(box.title)}</text>'
        f'<text class="detail" x="{centre:.1f}" y="{top + 34:.1f}">{_cut_text(box.detail)}</text></g>'
    )


def _arrow(arrow: Arrow, points: list[tuple[float, float]]) -> str:
    """A curve from the lower side of the parent to the upper side of the child, through the points of the layers."""
    (x, top), *rest = points
    y = top + _HEIGHT
    commands = [f"M{x:.1f} {y:.1f}"]
    for number, (right, below) in enumerate(rest, 1):
        middle = (y + below) / 2
        commands.append(f"C{x:.1f} {middle:.1f} {right:.1f} {middle:.1f} {right:.1f} {below:.1f}")
        x, y = right, below
        if number < len(rest):
            y += _HEIGHT
            commands.append(f"L{x:.1f} {y:.1f}")
    dashed = ' class="dashed"' if arrow.dashed else ""
    drawn = f'<path d="{" ".join(commands)}" marker-end="url(#head)"{dashed}/>'
    if not arrow.label:
        return drawn
    at_x, at_y = (points[-2][0] + points[-1][0]) / 2, points[-1][1] - (_STEP - _HEIGHT) / 2
    return f'{drawn}<text class="label" x="{at_x:.1f}" y="{at_y:.1f}">{_cut_text(arrow.label)}</text>'


def _cut_text(text: str) -> str:
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
