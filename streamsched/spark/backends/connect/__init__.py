"""Programs on a Spark Connect server: one that the installation starts and shares, or an external one. See ADR 21."""
