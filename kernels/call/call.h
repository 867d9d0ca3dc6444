#pragma once
// One op of a list over a micro-batch, as far as the arguments of its kernels depend on it.
//
//   device.run(norm_backward_args(call));                       in the engine
//   rms_norm_backward_cuda_workspace(norm_backward_args(call))  in a plan (planned_call.h)
//
// An op's own functions (kernels/*/*_op.cpp) make arguments for both, so that a plan counts the
// workspace of what the engine runs. No torch.
#include <span>

#include "core/lib/base/error.h"
#include "kernels/call/arena.h"
#include "kernels/call/op_module.h"
#include "kernels/call/step_batch.h"

namespace forge {

struct Call {
  const StepMemory& m;
  const Op& op;
  void* workspace = nullptr;
  std::span<const OpModule> modules;  // of the list, from number first_module on
  int32_t first_module = 0;
  const StepBatch& batch;
  uint32_t* counters = nullptr;  // AdapterSums::counters

  // True if the op's rows are those that an encoder reads.
  bool of_source() const {
    const std::vector<ValueId>& values = op.in.empty() ? op.out : op.in;
    return !values.empty() && m.graph.buffer_of(values[0]).rows == Rows::source;
  }
  // Return the op's tokens, in the micro-batch and at most.
  int64_t tokens() const { return of_source() ? m.source : m.tokens; }
  int64_t planned_tokens() const { return of_source() ? m.capacity.source : m.capacity.tokens; }
  const TokenRows& rows() const { return of_source() ? batch.source : batch.text; }
  ValueId in(size_t i) const { return op.in[i]; }
  ValueId out(size_t i) const { return op.out[i]; }
  const OpModule& module(size_t i = 0) const {
    return modules[static_cast<size_t>(op.modules[i] - first_module)];
  }
  const ModuleUse& use(size_t i = 0) const { return m.graph.module(op, i); }
  Element type() const { return m.type; }
  int64_t bytes() const { return bytes_of(m.type); }
  // Sets an operand of a kernel's arguments to a value.
  template <class T>
  void place(ValueId id, T*& data, int64_t& stride) const {
    data = m.data(id), stride = m.stride(id);
  }
  // Returns the address of an offset in the op's workspace.
  template <class T = char>
  T* at(int64_t offset) const {
    return reinterpret_cast<T*>(static_cast<char*>(workspace) + offset);
  }
};

// Returns arguments of a kernel over the rows of a value, in the compute type.
template <class Args>
Args over_rows(const Call& c, ValueId id) {
  Args args;
  args.type = c.type(), args.rows = c.m.rows(id), args.width = c.m.width(id);
  return args;
}

// Some columns of a value.
struct Part {
  void* data = nullptr;
  int64_t stride = 0, width = 0;
};

inline Part whole(const Call& c, ValueId id) { return {c.m.data(id), c.m.stride(id), c.m.width(id)}; }

// Returns the part that begins `column` columns later.
inline Part from_column(const Call& c, const Part& part, int64_t column) {
  return {static_cast<char*>(part.data) + column * c.bytes(), part.stride, part.width - column};
}

// Returns the columns that belong to one of the op's modules.
inline Part part(const Call& c, ValueId id, size_t module) {
  int64_t column = 0;
  for (size_t i = 0; i < module; ++i) column += c.use(i).out;
  Part part = from_column(c, whole(c, id), column);
  part.width = c.use(module).out;
  return part;
}

}  // namespace forge
