"""THE LOOP: one for all; what is learned is an objective, how weights move is a step."""
