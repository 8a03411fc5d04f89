"""The run folders on a disk: which there are, what state they are in, and how they are cleaned, renamed and deleted."""
