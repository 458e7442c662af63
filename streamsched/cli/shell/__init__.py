"""The command line as a program of a shell: the table of commands, completion, repetition and waiting."""
