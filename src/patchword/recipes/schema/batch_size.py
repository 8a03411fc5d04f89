"""The type of the field batch_size: a number, or "auto" until a number is found."""

from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

AUTO_BATCH = 0  # batch_size=auto; `tuning.batch_size` replaces it before a run starts
AUTO_MEANS = "auto: the largest that fits memory"  # for descriptions of the field


def _read(value: object) -> object:
    if value == "auto":
        return AUTO_BATCH
    if str(value).strip() == str(AUTO_BATCH):
        raise ValueError("a batch has at least one sample")
    return value


def _written(value: int) -> int | str:
    return "auto" if value == AUTO_BATCH else value


BatchSize = Annotated[int, BeforeValidator(_read), PlainSerializer(_written)]
