#include "kernels/offload/offload_op.h"

#include "kernels/call/run.h"

namespace forge {
void place_on_host(ComputeDevice& device, StepMemory& m) {
  if (m.layout.host_bytes > m.host.memory.bytes()) {
    m.host.memory = {};  // before the new one
    m.host.memory = HostBlock(device, m.layout.host_bytes, "kept activations");
  }
  if (m.host.copied.empty() && !m.layout.host_offsets.empty()) m.host.computed = device.new_event();
  while (m.host.copied.size() < m.layout.host_offsets.size()) m.host.copied.push_back(device.new_event());
}

namespace {

// Copies a value out, or back, when all that was computed so far is done. The value is at the
// beginning of its rows, which are copied whole.
void run_copy(const OpRun& r) {
  const bool out = r.op.kind->to_host;
  const ValueId value = out ? r.in(0) : r.out(0);
  const auto slot = static_cast<size_t>(r.op.attributes.slot);
  const int64_t bytes = r.m.rows(value) * r.m.stride(value) * bytes_of(r.m.element(value));
  char* on_host = r.m.host.memory.as() + r.m.layout.host_offsets[slot];
  void* on_device = r.m.data(value);
  r.device.record(r.m.host.computed, Stream::compute);
  r.device.wait(Stream::copy, r.m.host.computed);
  if (out)
    r.device.store(on_host, on_device, bytes, Stream::copy);
  else
    r.device.load(on_device, on_host, bytes, Stream::copy);
  r.device.record(r.m.host.copied[slot], Stream::copy);
}

void wait_for_copy(const OpRun& r) { r.device.wait(Stream::compute, r.m.host.copied[static_cast<size_t>(r.op.attributes.slot)]); }

}  // namespace

const OpRecord ops::store{.name = "store", .types = types::any, .to_host = true, .run = run_copy};
const OpRecord ops::stored{.name = "stored", .types = types::any, .waits = true, .run = wait_for_copy};
const OpRecord ops::load{.name = "load", .run = run_copy};
const OpRecord ops::loaded{.name = "loaded", .types = types::any, .waits = true, .run = wait_for_copy};

}  // namespace forge
