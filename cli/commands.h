#pragma once
// Every command of forge, as one table.
#include <span>
#include <string>

#include "cli/command.h"

namespace forge {

std::span<const Command* const> commands();
// Returns the command of that name. Throws Error(usage) with the nearest name.
const Command& find_command(const std::string& name);
// Returns the text of `forge --help`: the commands and the exit codes.
std::string overview();

}  // namespace forge
