"""Quotas: limits that an admin sets on a namespace, so that one user leaves room for the others. Pure."""
