"""The log of a server: lines for people, or one JSON object per line for programs that collect logs."""

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

LogFormat = Literal["text", "json"]
_LEVELS = {"CRITICAL": "error", "ERROR": "error", "WARNING": "warning"}


class JsonFormatter(logging.Formatter):
    """Writes what the program logs, such as a fault with its traceback, as one line."""

    def format(self, record: logging.LogRecord) -> str:
        level = _LEVELS.get(record.levelname, "info")
        fields: dict[str, Any] = {"message": record.getMessage()}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json_line(level, fields)


def json_line(level: str, fields: dict[str, Any]) -> str:
    """Return one line: the time in UTC, the level, and the fields."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "level": level, **fields}, ensure_ascii=False)


def write_json(fields: dict[str, Any]) -> None:
    """Write one line to stderr."""
    print(json_line("info", fields), file=sys.stderr, flush=True)


def report_json(message: str) -> None:
    """Write a message to the user as one line."""
    write_json({"message": message})


def log_as_json() -> Callable[[str], None]:
    """Let the program log in JSON from now on; return what writes a message to the user in this form."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    return report_json
