"""Spans: settings, a bounded queue, and sending by OTLP."""
