"""Who meets whom in a model's attention, read off the indices the model itself uses."""

from patchword.analysis.attention_pattern.find import by_stage, computed_share, meetings, met_share, reach
from patchword.analysis.attention_pattern.pattern import Meeting
from patchword.analysis.attention_pattern.receptive_field import Footprint

__all__ = ["Footprint", "Meeting", "by_stage", "computed_share", "meetings", "met_share", "reach"]
