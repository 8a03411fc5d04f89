"""Errors that the routes of the lab answer with a status of their own."""

from patchword.core.errors import UserError


class UnknownIdError(UserError):
    """A route was asked for something that does not exist: status 404 instead of 422."""
