#pragma once
// forge score FILE --model …: shows the scores that a reward model gives the answers of a file.
#include "cli/command.h"

namespace forge {

int score_by_model(const Arguments& args);

}  // namespace forge
