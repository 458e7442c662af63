"""Webhooks and the CloudEvents they send as JSON."""
