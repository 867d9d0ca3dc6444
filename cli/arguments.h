#pragma once
// Command lines and their help texts.
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace forge {

// Parses `words` (what follows the command's name) by the command's table. Returns nothing if help
// was requested.
// Throws Error(usage) that names the word and the nearest option.
std::optional<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words);

std::string help_text(const Command& command);

}  // namespace forge
