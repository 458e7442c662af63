"""A layered layout: each box is below all its parents, and crossings of arrows are reduced by sorting each layer by the
mean position of its neighbours. Arrows over several layers get a point in each.

>>> layout([30, 30, 30], [(0, 1), (1, 2), (0, 2)]).layers
((0,), (1, 3), (2,))
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Final, NamedTuple

_SWEEPS: Final = 8
#: Most points of arrows within layers; arrows of a picture with more go straight.
MOST_POINTS: Final = 10_000
_GAP: Final = 24.0
#: Width of a point of an arrow that passes a layer.
_POINT: Final = 8.0


class LayeredLayout(NamedTuple):
    """Positions on the x axis.

    Attributes:
        layers: from top to bottom, items from left to right: boxes by their index, and after them points of arrows.
        centres: of each item.
        paths: for each arrow the items that it passes, its ends included.
        width: of the whole.
    """

    layers: tuple[tuple[int, ...], ...]
    centres: tuple[float, ...]
    paths: tuple[tuple[int, ...], ...]
    width: float


def layout(widths: Sequence[float], arrows: Sequence[tuple[int, int]]) -> LayeredLayout:
    """The layout of boxes of these widths. The arrows, from parent to child, have no circle."""
    above: dict[int, list[int]] = {box: [] for box in range(len(widths))}
    for parent, child in arrows:
        above[child].append(parent)
    level: dict[int, int] = {}
    for box in TopologicalSorter(above).static_order():
        level[box] = max((level[parent] + 1 for parent in above[box]), default=0)
    sizes = list(widths)
    long = sum(level[child] - level[parent] - 1 for parent, child in arrows) > MOST_POINTS
    paths: list[tuple[int, ...]] = []
    for parent, child in arrows:
        points: list[int] = []
        for between in () if long else range(level[parent] + 1, level[child]):
            points.append(len(sizes))
            level[len(sizes)] = between
            sizes.append(_POINT)
        paths.append((parent, *points, child))
    layers: list[list[int]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for item in range(len(sizes)):
        layers[level[item]].append(item)
    _sort(layers, paths)
    centres, width = _place(layers, sizes)
    return LayeredLayout(tuple(map(tuple, layers)), centres, tuple(paths), width)


def _sort(layers: list[list[int]], paths: Sequence[tuple[int, ...]]) -> None:
    up: dict[int, list[int]] = {}
    down: dict[int, list[int]] = {}
    for path in paths:
        for upper, lower in pairwise(path):
            up.setdefault(lower, []).append(upper)
            down.setdefault(upper, []).append(lower)
    place = {item: float(number) for layer in layers for number, item in enumerate(layer)}
    for sweep in range(_SWEEPS):
        neighbours = down if sweep % 2 else up
        for layer in reversed(layers) if sweep % 2 else layers:
            wanted = {item: _mean([place[each] for each in neighbours.get(item, ())], place[item]) for item in layer}
            layer.sort(key=wanted.__getitem__)
            place |= {item: float(number) for number, item in enumerate(layer)}


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _place(layers: Sequence[Sequence[int]], sizes: Sequence[float]) -> tuple[tuple[float, ...], float]:
    """Each layer centred within the widest."""
    lengths = [sum(sizes[item] for item in layer) + _GAP * max(0, len(layer) - 1) for layer in layers]
    width = max(lengths, default=0.0)
    centres = [0.0] * len(sizes)
    for layer, length in zip(layers, lengths, strict=True):
        left = (width - length) / 2
        for item in layer:
            centres[item] = left + sizes[item] / 2
            left += sizes[item] + _GAP
    return tuple(centres), width
