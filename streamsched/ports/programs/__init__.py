"""What programs need that is stored: profiles and bundles."""
