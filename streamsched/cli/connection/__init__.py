"""The connection of the commands to a server: its URL and token, contexts, requests, and a notice while one waits."""
