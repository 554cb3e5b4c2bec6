"""What is expected of a sample of blocks by hash."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def share_error(requests: NDArray[np.int64], one_in: int) -> float:
    """The standard error of the share of requests that is sampled (1 / one_in), of 1.

    `requests`: for each block, sampled or not.
    """
    ios = requests.astype(np.float64)
    return float(np.sqrt((one_in - 1) * (ios**2).sum()) / (one_in * ios.sum()))
