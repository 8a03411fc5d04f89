"""The verb about the lectures."""
