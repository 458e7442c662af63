"""Commands for jobs of Dapr's API."""
