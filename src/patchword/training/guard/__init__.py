"""Guards of a step: out of memory, non-finite losses and gradients, loss spikes."""
