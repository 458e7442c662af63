"""Tasks of Stolos."""
