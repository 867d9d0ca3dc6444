#pragma once
// The documentation of the protocol between program and engine: docs/engine-protocol.md, written
// from the tables of requests and events.
//
//   forge schema event --docs > docs/engine-protocol.md
#include <string>

namespace forge {

std::string protocol_markdown();

}  // namespace forge
