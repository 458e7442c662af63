"""Commands about contexts."""
