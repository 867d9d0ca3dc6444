#pragma once
// Turns an unexpected exception into an error for the user. Last resort of both mains.
#include <exception>
#include <string>

#include "core/lib/base/error.h"

namespace forge {

// Returns the exception's message without the frames of the stack that LibTorch adds.
std::string message_of(const std::exception& exception);

// Returns the error for an exception. Exhausted memory is `fit`; a refusal of the system (a thread,
// a deleted working directory) is `environment`; anything else is a bug in forge. An Error is
// returned unchanged.
Error as_error(const std::exception& exception);

}  // namespace forge
