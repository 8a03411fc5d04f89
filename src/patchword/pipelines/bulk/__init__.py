"""Embeds and predicts for any number of rows, in shards that are kept: a killed process loses one of them."""
