#pragma once
// Files whose names a user gave (--dump FILE, /save FILE): they may be devices, pipes, links, or files with a mode of their own.
#include <functional>
#include <string>
#include <string_view>

#include "core/base/file.h"

namespace forge {

// A new file, or a regular one of this user alone, appears whole or not at all (write_file_durably) and keeps its mode. Devices,
// pipes, files with several names and those of others are written through, as the shell's > does; a link stays one. Throws
// Error(environment).
void write_user_file(const std::string& path, const std::function<void(OutputFile&)>& write);
void write_user_file(const std::string& path, std::string_view content);

// Adds a line, behind the end of the last one. Throws Error(environment).
void append_line_to_user_file(const std::string& path, std::string_view line);

}  // namespace forge
