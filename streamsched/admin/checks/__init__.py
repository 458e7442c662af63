"""Checks of an installation, and what a person says about them."""
