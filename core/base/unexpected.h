#pragma once
// Turns an unexpected exception into an error for the user. Last resort of both mains.
#include <exception>
#include <string>

#include "core/base/error.h"

namespace forge {

// Returns the exception's message without the frames of the stack that LibTorch adds.
std::string message_of(const std::exception& exception);

// Memory that ran out is `fit`, what the system refused (a thread, a deleted working directory) is `environment`; anything
// else is a bug in forge. An Error is returned as it is.
Error as_error(const std::exception& exception);

}  // namespace forge
