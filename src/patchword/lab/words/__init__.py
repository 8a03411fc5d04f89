"""The page Words: what text models do with a text, as JSON and arrays."""
