#pragma once
// Converts LibTorch's types to the names that kernels use.
#include <c10/core/ScalarType.h>

#include "kernels/common/element.h"

namespace forge {

Element element_of(c10::ScalarType type);

}  // namespace forge
