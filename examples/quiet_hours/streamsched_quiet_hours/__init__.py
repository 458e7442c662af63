"""An example of a constraint plug-in for streamsched."""
