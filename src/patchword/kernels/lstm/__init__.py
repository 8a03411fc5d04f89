"""LSTM layers with a projection and clipped cells and outputs."""

from patchword.kernels.lstm.operation import clipped_lstm
from patchword.kernels.lstm.reference import Bounds, Weights

__all__ = ["Bounds", "Weights", "clipped_lstm"]
