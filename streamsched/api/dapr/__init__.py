"""Dapr's jobs API over HTTP: the dialect of a sidecar, which serves one app; native routes for all apps (ADR 26)."""
