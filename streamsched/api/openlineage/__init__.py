"""OpenLineage's dialect of HTTP."""
