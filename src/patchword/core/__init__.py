"""VALUES: the small frozen records that travel between the parts, and the errors a user sees."""
