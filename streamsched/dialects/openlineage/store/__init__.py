"""Ends of runs that OpenLineage tells of."""
