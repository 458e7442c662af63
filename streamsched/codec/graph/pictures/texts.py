"""Pictures as texts that other programs draw: Graphviz's DOT and Mermaid."""

from __future__ import annotations

from typing import Final

from streamsched.codec.graph.pictures.picture import Picture

_ENTITIES: Final = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;"})


def to_dot(picture: Picture) -> str:
    """A digraph of Graphviz: `dot -Tsvg`."""
    lines = [f"digraph {_dot(picture.title)} {{", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    if picture.note:
        lines.append(f"  label={_dot(picture.note)};")
    for number, box in enumerate(picture.boxes):
        label = _dot(f"{box.title}\n{box.detail}")
        lines.append(f'  n{number} [label={label}, color="{box.colour}"];')
    for arrow in picture.arrows:
        options = [f"label={_dot(arrow.label)}"] if arrow.label else []
        options += ["style=dashed"] if arrow.dashed else []
        written = f" [{', '.join(options)}]" if options else ""
        lines.append(f"  n{arrow.parent} -> n{arrow.child}{written};")
    return "\n".join([*lines, "}", ""])


def to_mermaid(picture: Picture) -> str:
    """A flowchart of Mermaid, as Markdown viewers draw it in a block `mermaid`."""
    lines = ["flowchart TD"]
    if picture.note:
        lines.append(f"  %% {' '.join(picture.note.split())}")
    lines += [
        f'  n{number}["{box.title.translate(_ENTITIES)}<br/>{box.detail.translate(_ENTITIES)}"]'
        for number, box in enumerate(picture.boxes)
    ]
    for arrow in picture.arrows:
        line = "-.->" if arrow.dashed else "-->"
        label = f'|"{arrow.label.translate(_ENTITIES)}"|' if arrow.label else ""
        lines.append(f"  n{arrow.parent} {line}{label} n{arrow.child}")
    lines += [f"  style n{number} stroke:{box.colour}" for number, box in enumerate(picture.boxes)]
    return "\n".join([*lines, ""])


def _dot(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
