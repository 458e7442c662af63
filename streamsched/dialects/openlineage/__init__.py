"""OpenLineage: run events, as the listener of Spark and other integrations send them, become events (ADR 24)."""
