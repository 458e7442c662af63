"""The source of a file of DAGs: values, keywords, tasks and their order, as far as they can be read."""
