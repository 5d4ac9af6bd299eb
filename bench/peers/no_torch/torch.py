# SPDX-License-Identifier: BSD-3-Clause
"""In place of PyTorch, for the test of what the benchmark says where there is none."""

raise ImportError("a fake for a machine without PyTorch")
