"""Commands that import definitions of other systems."""
