"""A graph as SVG, layered from left to right, without scripts and styles. Pure.

A thousand boxes are drawn for each visit, so the parts are plain strings; each text goes through `escape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from streamsched.codec.graph.pictures.layers import layout
from streamsched.web.views.links_graph import drop_cycles
from streamsched.web.views.names import clip

_HEIGHT: Final = 40.0
_GAP: Final = 56.0
_MARGIN: Final = 12.0
_CHARACTER: Final = 7.3
_LONGEST: Final = 44
_LEAST: Final = 90.0


class DrawnBox(NamedTuple):
    """A node: two lines, a tone, and its page; `focus`: it is marked."""

    title: str
    detail: str
    tone: str
    href: str
    focus: bool = False


def draw_graph(boxes: Sequence[DrawnBox], arrows: Sequence[tuple[int, int]], *, label: str) -> Markup:
    """The picture. Arrows that close a circle are dashed. At most a thousand boxes. The last pictures are kept: an open
    page asks for the same one until a state changes.
    """
    return _draw(tuple(boxes), tuple(arrows), label)


@lru_cache(maxsize=4)
def _draw(boxes: tuple[DrawnBox, ...], arrows: tuple[tuple[int, int], ...], label: str) -> Markup:
    laid = drop_cycles(len(boxes), arrows)
    placed = layout([_HEIGHT] * len(boxes), laid)
    of_layer = {item: number for number, layer in enumerate(placed.layers) for item in layer}
    widths = [max((_width(boxes[item]) for item in layer if item < len(boxes)), default=0.0) for layer in placed.layers]
    lefts = [_MARGIN + sum(widths[:number]) + number * _GAP for number in range(len(widths))]
    width = (lefts[-1] + widths[-1] if widths else 0.0) + _MARGIN
    height = placed.width + 2 * _MARGIN

    def side(item: int, *, right: bool) -> tuple[float, float]:
        layer = of_layer[item]
        return lefts[layer] + (widths[layer] if right else 0.0), placed.centres[item] + _MARGIN

    def right_side(item: int) -> tuple[float, float]:
        layer = of_layer[item]
        return lefts[layer] + _width(boxes[item]), placed.centres[item] + _MARGIN

    parts: list[str] = []
    for (parent, child), path in zip(laid, placed.paths, strict=True):
        points = [right_side(parent)]
        for item in path[1:-1]:
            points += [side(item, right=False), side(item, right=True)]
        points.append(side(child, right=False))
        parts.append(f'<path class="arrow" data-ends="{parent} {child}" d="{_curve(points)}"></path>')
    straight = set(arrows) - set(laid)
    for parent, child in sorted(straight):
        if parent != child:
            path = _back_curve(right_side(parent), side(child, right=False))
            parts.append(f'<path class="arrow back" data-ends="{parent} {child}" d="{path}"></path>')
    parts += [_box(box, number, *side(number, right=False)) for number, box in enumerate(boxes)]
    return Markup(
        '<svg class="graph" id="graph" width="{:.0f}" height="{:.0f}" viewBox="0 0 {:.0f} {:.0f}" role="group" '
        'aria-label="{}"><defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="head" d="M0 0L8 4L0 8z"></path></marker></defs>{}</svg>'
    ).format(width, height, width, height, label, Markup("".join(parts)))


def _width(box: DrawnBox) -> float:
    return max(_LEAST, min(_LONGEST, max(len(box.title), len(box.detail))) * _CHARACTER + 20)


def _box(box: DrawnBox, number: int, left: float, middle: float) -> str:
    width, top, text = _width(box), middle - _HEIGHT / 2, f'<text x="{left + 10:.1f}"'
    return (
        f'<a href="{escape(box.href)}" class="node" data-node="{number}">'
        f"<title>{escape(f'{box.title}, {box.detail}')}</title>"
        f'<rect class="node-{escape(box.tone)}{" focus" if box.focus else ""}" x="{left:.1f}" y="{top:.1f}" '
        f'width="{width:.1f}" height="{_HEIGHT:.0f}" rx="6"></rect>'
        f'{text} y="{top + 17:.1f}">{escape(clip(box.title, _LONGEST))}</text>'
        f'{text} y="{top + 32:.1f}" class="detail">{escape(clip(box.detail, _LONGEST))}</text></a>'
    )


def _back_curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A curve from the right side of a box to the left side of one before it, around both."""
    (x, y), (to_x, to_y) = start, end
    out, below = _GAP / 2, max(y, to_y) + _HEIGHT * 0.8
    return (
        f"M{x:.1f} {y:.1f}C{x + out:.1f} {y:.1f} {x + out:.1f} {below:.1f} {x:.1f} {below:.1f}"
        f"L{to_x:.1f} {below:.1f}C{to_x - out:.1f} {below:.1f} {to_x - out:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    )


def _curve(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    commands = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        middle = (x + to_x) / 2
        commands.append(f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(commands)
