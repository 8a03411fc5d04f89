"""ANSWERS: one object per trained model that answers for images and texts."""

from patchword.pipelines.attention import Attention
from patchword.pipelines.detection.answer import DetectionAnswer
from patchword.pipelines.fillings import Fillings
from patchword.pipelines.interface import Pipeline
from patchword.pipelines.opening import pipeline
from patchword.pipelines.predictions import Prediction, Predictions

__all__ = ["Attention", "DetectionAnswer", "Fillings", "Pipeline", "Prediction", "Predictions", "pipeline"]
