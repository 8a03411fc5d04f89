"""What torch's kernel for packed sequences supports: dtypes, head widths, dropout, GPUs."""

import torch

DTYPES = (torch.float16, torch.bfloat16)
HEAD_WIDTH_MULTIPLE = 8
MAX_HEAD_WIDTH = 256
MAX_HEAD_WIDTH_WITH_DROPOUT = 192  # on GPUs other than those below
WIDE_DROPOUT_CAPABILITIES = ((8, 0), (9, 0))  # A100, H100 and H200: no limit of their own with dropout
MIN_CAPABILITY = (8, 0)  # Ampere
