"""What programs need besides their code: secrets by reference, files, packages, sizes, profiles, bundles."""
