#include "core/model/graph/backward.h"

#include "kernels/rows/rows_op.h"

namespace forge {

Graph with_backward(Graph forward, const KeptValues& kept) {
  return Gradients(std::move(forward), kept, {.cast = &ops::cast, .add = &ops::add_gradient}).derive();
}

}  // namespace forge
