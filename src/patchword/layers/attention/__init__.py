"""Attention as four independent choices: projection, partition, position, and the one core that runs them."""
