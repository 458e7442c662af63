"""Domain values and rules. Standard library only: no clock, no random numbers, no I/O; `now` is always an argument."""
