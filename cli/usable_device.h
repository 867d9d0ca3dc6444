#pragma once
// Finds the device that a command computes on: one that the driver, the engines and the libraries
// of this machine can use.
//
//   const DeviceChoice choice = choose_device(probe_hardware(), job.hardware, fault_here);
#include "cli/engine_location.h"
#include "core/plan/machine/device.h"

namespace forge {

// Returns the card's own fault, else why its engine cannot be started; without words if nothing is
// known against it. Throws Error(environment) if FORGE_ENGINE names a program that is not there: a
// choice of the user is never passed over.
CardFault fault_here(const Device& device);

// Returns the engine that computes a planned device. Throws Error(environment) if no engine
// computes on such a card, or if the card is not in this machine and FORGE_ENGINE names no engine
// that stands in for it.
EngineLocation engine_of(const Device& device, const std::string& engine);

}  // namespace forge
