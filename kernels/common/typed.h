#pragma once
// Loops over rows of any element type: the type as a value, and where a row begins. Host code.
#include "kernels/common/element.h"

namespace forge {

// Calls visit(float{}), visit(Bf16{}) or visit(F16{}).
template <class Visit>
void of_type(Element type, Visit visit) {
  if (type == Element::f32) return visit(float{});
  type == Element::bf16 ? visit(Bf16{}) : visit(F16{});
}

// Row `row` of [rows, stride] elements.
template <class T>
const T* row_of(const void* data, int64_t row, int64_t stride) {
  return static_cast<const T*>(data) + row * stride;
}
template <class T>
T* row_of(void* data, int64_t row, int64_t stride) {
  return static_cast<T*>(data) + row * stride;
}

}  // namespace forge
