"""Commands of graphs of tasks, and the import of other systems' definitions."""
