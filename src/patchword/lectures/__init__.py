"""What the lectures show, in their order, with the command that reproduces it; lectures.yaml has all of it."""
