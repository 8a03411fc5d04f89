"""The seal of a folder: size and sha256 of each of its files in seal.json, written together with them."""
