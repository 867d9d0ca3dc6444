#pragma once
// LibTorch's types as the kernels name them.
#include <c10/core/ScalarType.h>

#include "kernels/common/element.h"

namespace forge {

Element element_of(c10::ScalarType type);

}  // namespace forge
