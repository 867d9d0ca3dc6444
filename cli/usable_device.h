#pragma once
// Finds the device that a command computes on: one that the driver, the engines and the libraries
// of this machine can use.
//
//   const DeviceChoice choice = usable_device(probe_hardware(), job.hardware);
#include "cli/engine_location.h"
#include "core/plan/machine/device.h"

namespace forge {

// Returns why an engine cannot be started for a card of this compute capability; without words if
// nothing is known against it. Throws Error(environment) if FORGE_ENGINE names a program that is
// not there: a choice of the user is never passed over.
CardFault engine_fault(const std::string& engine, int64_t compute_capability);

// Returns the card's own fault, else its engine's.
CardFault fault_here(const Device& device);

// Calls choose_device among the cards without a fault here.
DeviceChoice usable_device(const Hardware& hardware, const HardwareConfig& config, const std::string& key = "hardware.device");

// Returns the engine that computes a planned device. Throws Error(environment) if no engine
// computes on such a card, or if the card is not in this machine and FORGE_ENGINE names no engine
// that stands in for it.
EngineLocation engine_of(const Device& device, const std::string& engine);

}  // namespace forge
