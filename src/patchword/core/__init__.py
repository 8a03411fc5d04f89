"""VALUES: small frozen records that the other packages exchange, and the errors that users see."""
