// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Runs cases one after the other, each in a process of its own, and reports in TAP.
#pragma once

#include "env.h"

namespace mv {

// True when nothing failed.
[[nodiscard]] bool run_cases(const Options &options, const Registry &cases);

} // namespace mv
