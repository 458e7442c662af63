"""OpenLineage: run events, and the events they become (ADR 24)."""
