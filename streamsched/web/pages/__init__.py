"""One module for each page, or for the actions of one."""
