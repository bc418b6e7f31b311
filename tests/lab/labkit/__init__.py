# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The lab: boots kernels with the module in them and runs commands there."""
