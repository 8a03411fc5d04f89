"""SERVING: the guard in front of a local server, and the server that runs behind it."""
