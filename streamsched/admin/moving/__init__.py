"""Taking over what another scheduler did."""
