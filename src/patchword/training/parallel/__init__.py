"""One run on several processes: ranks, splitting of batches, gradient synchronization, sharded weights."""
