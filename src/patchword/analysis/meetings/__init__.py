"""Who meets whom in a model's attention, read off the indices the model itself uses."""

from patchword.analysis.meetings.find import by_stage, computed_share, meetings, met_share, reach
from patchword.analysis.meetings.footprint import Footprint
from patchword.analysis.meetings.meeting import Meeting

__all__ = ["Footprint", "Meeting", "by_stage", "computed_share", "meetings", "met_share", "reach"]
