"""Dapr's jobs API: jobs, their grammar of times, their JSON, and refusals with Dapr's codes (ADR 26).

`strict` everywhere: as a sidecar of Dapr 1.18 answers, where this product would answer better.
"""
