#pragma once
// The requests of docs/engine-protocol.md.
#include "core/train/step.h"

namespace forge {

// Carries out one request; every result is an event. Throws Error.
void answer(const Json& request, const EventSink& emit, StopFlag& stop);

}  // namespace forge
