"""The fields of recipes that decide what happens to broken samples."""

from typing import Literal

from pydantic import BaseModel, Field

from patchword.data.faults import SkipRule


class BrokenSamples(BaseModel):
    """Fields of recipes whose data are single images or rows of tables, of which some may be broken."""

    on_broken: Literal["skip", "stop"] = Field(
        "skip", description="images that cannot be read and rows with empty cells: skip and name them, or stop"
    )
    max_broken: float = Field(
        0.05, gt=0, le=1, description="largest fraction of a file or split that on_broken=skip leaves out"
    )

    def skip_rule(self) -> SkipRule | None:
        """Return which broken samples are skipped; None if each of them is an error."""
        return SkipRule(self.max_broken, "max_broken=0.2 skips up to 20%") if self.on_broken == "skip" else None
