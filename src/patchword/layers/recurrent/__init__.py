"""LSTMs, highway layers and the recurrent translation model."""
