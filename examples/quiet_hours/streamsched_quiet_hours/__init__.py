"""A constraint for streamsched, from outside."""
