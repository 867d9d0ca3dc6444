#pragma once
// Carries out the requests of docs/engine-protocol.md.
#include "core/train/step.h"

namespace forge {

// Returns the program's reply to an event that asks for an answer. Throws StepInterrupted if the
// program exits or asks to stop.
using Ask = std::function<Json(const Json& event)>;

// Carries out one request; every result is an event. Throws Error.
void answer(const Json& request, const EventSink& emit, const Ask& ask, StopFlag& stop);

}  // namespace forge
