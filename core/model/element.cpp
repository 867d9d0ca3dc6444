#include "core/model/element.h"

#include "core/lib/base/error.h"

namespace forge {

Element element_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return Element::f32;
    case c10::ScalarType::BFloat16:
      return Element::bf16;
    case c10::ScalarType::Half:
      return Element::f16;
    default:
      FORGE_CHECK(false, "no kernel computes in " << type);
  }
}

}  // namespace forge
