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

struct Copy {
  char* on_host;
  void* on_device;
  int64_t bytes;
  Event copied;
};

// Returns the copy of a value. `value` is at the beginning of the rows, which are copied whole.
Copy copy_of(const OpRun& r, ValueId value) {
  const auto slot = static_cast<size_t>(r.op.attributes.slot);
  return {r.m.host.memory.as() + r.m.layout.host_offsets[slot], r.m.data(value),
          r.m.rows(value) * r.m.stride(value) * bytes_of(r.m.element(value)), r.m.host.copied[slot]};
}

void begin(const OpRun& r) {
  r.device.record(r.m.host.computed, Stream::compute);
  r.device.wait(Stream::copy, r.m.host.computed);
}

void run_store(const OpRun& r) {
  const Copy copy = copy_of(r, r.in(0));
  begin(r);
  r.device.store(copy.on_host, copy.on_device, copy.bytes, Stream::copy);
  r.device.record(copy.copied, Stream::copy);
}

void run_load(const OpRun& r) {
  const Copy copy = copy_of(r, r.out(0));
  begin(r);
  r.device.load(copy.on_device, copy.on_host, copy.bytes, Stream::copy);
  r.device.record(copy.copied, Stream::copy);
}

void wait_for_copy(const OpRun& r) { r.device.wait(Stream::compute, r.m.host.copied[static_cast<size_t>(r.op.attributes.slot)]); }

}  // namespace

const OpRecord ops::store{.name = "store", .types = types::any, .to_host = true, .run = run_store};
const OpRecord ops::stored{.name = "stored", .types = types::any, .waits = true, .run = wait_for_copy};
const OpRecord ops::load{.name = "load", .run = run_load};
const OpRecord ops::loaded{.name = "loaded", .types = types::any, .waits = true, .run = wait_for_copy};

}  // namespace forge
