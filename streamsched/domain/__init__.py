"""Words and rules. Standard library only: no clock, no dice, no log, no await; `now` is always an argument."""
