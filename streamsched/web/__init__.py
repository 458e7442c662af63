"""The pages: a server-rendered UI at `/ui`, in the process of the API (ADR 34)."""
