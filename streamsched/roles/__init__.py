"""The processes of an installation, one module for each role: what it is made of."""
