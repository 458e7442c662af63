"""streamsched: starts the right Spark job seconds after its inputs are complete."""

__version__ = "0.1.0"
