# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for PyTorch in the test of what the benchmark says where PyTorch is missing."""

raise ImportError("a fake for a machine without PyTorch")
