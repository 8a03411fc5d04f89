"""LAB: one local page over the models that are on this machine, and handouts of it that need no server."""
