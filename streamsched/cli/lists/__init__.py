"""Commands that list resources."""
