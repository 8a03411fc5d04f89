"""Who meets whom in a model's attention, read off the indices the model itself uses."""

from patchword.analysis.attention_pattern.find import by_stage, computed_share, density, meetings, reach
from patchword.analysis.attention_pattern.pattern import AttentionPattern
from patchword.analysis.attention_pattern.receptive_field import Footprint

__all__ = ["AttentionPattern", "Footprint", "by_stage", "computed_share", "density", "meetings", "reach"]
