"""Why the engine does not answer a request."""

from patchword.core.errors import UserError


class QueueFullError(UserError):
    """There is more work than the queue may hold. retry_after: seconds until there is room again."""

    def __init__(self, ahead: float, most: float, retry_after: int) -> None:
        self.retry_after = retry_after
        hint = f"try again in {retry_after} s"
        expected = f"at most {most:g} s of work in the queue"
        super().__init__("the server is busy", expected=expected, got=f"{ahead:.1f} s", hint=hint)


class TooMuchWorkError(UserError):
    """One request alone takes longer than its deadline allows."""

    def __init__(self, own: float, seconds: float) -> None:
        expected = f"at most {seconds:g} s of work, the deadline of a request"
        hint = "send the inputs in several requests"
        super().__init__("the request is too much work", expected=expected, got=f"about {own:.1f} s", hint=hint)


class DeadlineError(UserError):
    """The deadline passed before the answer was ready."""

    def __init__(self, seconds: float) -> None:
        expected = f"an answer within {seconds:g} s"
        super().__init__("the deadline has passed", expected=expected, hint="the server is slower than when it started")


class DrainingError(UserError):
    """The server is being stopped and takes no more requests."""

    def __init__(self) -> None:
        super().__init__("the server is being stopped", hint="ask another server, or try again when it has restarted")


class CancelledRequestError(Exception):
    """The client does not wait any more."""
