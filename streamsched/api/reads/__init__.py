"""What the API and the pages read of the log and of the catalog."""
