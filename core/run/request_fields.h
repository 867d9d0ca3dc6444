#pragma once
// The requests that the program sends to the engine: one table, against which the engine checks a
// request and from which docs/engine-protocol.md is written.
#include "core/run/event_fields.h"

namespace forge {

// Version of requests and events together.
constexpr int kProtocol = 1;

// Returns the table of requests; `name` is the command.
std::span<const EventShape> request_shapes();

// Returns what is wrong with a request, one sentence for each fault; empty for a valid one. Fields
// that the command does not have are faults, so that no field is sent that nothing reads.
std::vector<std::string> request_faults(const Json& request);

// Returns docs/engine-protocol.md, from the tables of requests and events.
//
//   forge schema event --docs > docs/engine-protocol.md
std::string protocol_markdown();

}  // namespace forge
