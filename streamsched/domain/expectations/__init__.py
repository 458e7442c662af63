"""Expectations: what must be there by which time, whether it is, and by when it usually is."""
