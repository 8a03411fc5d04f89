"""What detectors and segmenters share: models of the registry as their backbones."""
