"""SERVING: the guard in front of a local server, the server that runs behind it, and the engine of batches."""
