"""A log on Redis: what a driver outside of streamsched looks like."""
