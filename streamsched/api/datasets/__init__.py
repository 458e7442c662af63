"""What the API and the pages say of a dataset."""
