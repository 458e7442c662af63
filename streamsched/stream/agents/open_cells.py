"""The cells of the open keys of one schedule, of which those in use are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from streamsched.domain.fold.cell import Cell


class OpenCells(Mapping[str, Cell]):
    """By key, in order of opening. A cell is read when it is asked for, and stays until it is let go."""

    def __init__(self, keys: Iterable[str], read: Callable[[str], Cell]) -> None:
        """`keys`: those that are open, in order; `read`: returns the cell of one."""
        self._cells: dict[str, Cell | None] = dict.fromkeys(keys)
        self._read = read

    def update(self, changed: Mapping[str, Cell | None]) -> None:
        """Replaces the cells of these keys; None closes a key, and one that is opened again moves to the end."""
        cells = self._cells
        for name, cell in changed.items():
            if cell is None or (name in cells and self[name].number != cell.number):
                cells.pop(name, None)
            if cell is not None:
                cells[name] = cell

    def let_go(self, key: str) -> None:
        """Removes the cell of an open key from memory. Its row must be as the cell is."""
        if key in self._cells:
            self._cells[key] = None

    def __getitem__(self, key: str) -> Cell:
        cell = self._cells[key]
        if cell is None:
            cell = self._cells[key] = self._read(key)
        return cell

    def __contains__(self, key: object) -> bool:
        return key in self._cells

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._cells)

    def __len__(self) -> int:
        return len(self._cells)
