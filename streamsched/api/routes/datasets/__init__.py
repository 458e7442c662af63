"""Routes of what limits launches: clusters, groups and pools."""
