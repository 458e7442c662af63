"""Routes of what programs need: profiles and bundles."""
