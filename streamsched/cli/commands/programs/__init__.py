"""Commands about what programs need: profiles and bundles."""
