"""Expectations in PostgreSQL: definitions, evidence, and their evaluation."""
