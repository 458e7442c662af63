"""Drivers that run in a cluster, and Spark Connect. See ADR 21.

    runner ── RemoteDriver ── Backend: standalone (REST), YARN, Kubernetes
           └─ ConnectProgram ── a process beside the runner ── Spark Connect server

The runner is the supervisor of both: it heartbeats, kills and stores the end. A driver in a cluster outlives it; the
next runner of the run finds it by the run's id.
"""
