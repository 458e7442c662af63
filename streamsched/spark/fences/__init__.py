"""Fences of runs that were given up, in the logs of the datasets that their programs declare (ADR 23)."""
