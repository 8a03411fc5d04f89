"""Random keys of a fixed seed, for the samplers of detectors."""

import torch


def seeded_keys(seed):
    """Return a function of shape and device, as `SharedLoss.keys`."""
    generator = torch.Generator().manual_seed(seed)
    return lambda shape, device: torch.rand(shape, generator=generator).to(device)
