"""Commands about datasets."""
