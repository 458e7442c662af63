"""An example of a log driver for streamsched, on Redis."""
