"""The tables of the papers as they are printed, whole; tables.yaml has them."""
