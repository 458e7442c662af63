"""Pictures of graphs as text: Graphviz, Mermaid and SVG."""
