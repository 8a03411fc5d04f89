"""Changes of pictures that keep their class: batched tensor code, on any device, one set of numbers a sample."""
