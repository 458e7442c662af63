"""Pages of what comes in: events, dead letters, datasets."""
