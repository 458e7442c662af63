"""Dapr's jobs: requests of its API, and delivery to apps as its sidecar delivers (ADR 26)."""
