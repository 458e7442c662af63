"""What pages read of the log, and what they keep of the catalog."""
