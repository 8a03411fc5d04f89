"""The body of a request, with a limit on its bytes and on the time that it may take."""

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

CLOSE = {"connection": "close"}


class LimitedBody:
    """An ASGI `receive` that ends a body that is too long (413) or too slow (408).

    It counts what arrives, so that a chunked body, which states no length, has the same limit. After the body it adds
    nothing: an event stream waits here for hours until its reader leaves.
    """

    def __init__(self, receive: Receive, most_bytes: int, seconds: float) -> None:
        self._receive, self._left, self._seconds = receive, most_bytes, seconds
        self._deadline: float | None = None
        self._ended = False

    async def __call__(self) -> Message:
        if self._ended:
            return await self._receive()
        now = asyncio.get_running_loop().time()
        self._deadline = self._deadline or now + self._seconds
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, self._deadline - now))
        except TimeoutError:
            raise HTTPException(408, "the body of the request took too long", CLOSE) from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise HTTPException(413, "the body of the request is too long", CLOSE)
        self._ended = not message.get("more_body", False)
        return message
