"""Loggers: other programs that record a run, such as TensorBoard, MLflow and Weights & Biases."""
