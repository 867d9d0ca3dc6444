#pragma once
// Declares fmt::format, whose code format.cpp compiles once for all that do not use LibTorch: fmt's
// header with its definitions costs each file that includes it three seconds.
#include <fmt/core.h>
