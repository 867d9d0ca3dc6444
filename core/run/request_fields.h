#pragma once
// What the program may ask of the engine: one table, against which the engine checks its request and from which
// docs/engine-protocol.md is written.
#include "core/run/event_fields.h"

namespace forge {

// Version of requests and events together.
constexpr int kProtocol = 1;

// `name` is the command.
std::span<const EventShape> request_shapes();

// What is wrong with a request, one sentence each; empty for a good one. Fields that its command does not have are
// faults: nothing is sent that nobody reads.
std::vector<std::string> request_faults(const Json& request);

}  // namespace forge
