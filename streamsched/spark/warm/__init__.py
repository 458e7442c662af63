"""Warm starts of runs, on Linux: runners are forked from a fork server, and the processes of Python programs from a
zygote, which has imported the libraries of its program. See ADR 20.

    launcher ── fork server ─┬─ runner of each run
                             └─ zygote of each program ── keeper of each run ── the run's process

Without an answer in time each start is cold, as if none of these processes existed.
"""
