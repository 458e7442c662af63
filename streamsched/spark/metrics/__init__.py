"""The metrics of a run while it runs, and at its end (ADR 21)."""
