#pragma once
// Files whose names a user gave (--dump FILE, /save FILE). They may be devices, pipes, links, or
// files with a mode of their own.
#include <functional>
#include <string>
#include <string_view>

#include "core/lib/base/file.h"

namespace forge {

// Writes a file. A new file, or a regular one that has one name and belongs to this user, appears
// whole or not at all (write_file_durably) and keeps its mode and group. Devices, pipes, files with
// several names, with an access list, mounted by themselves, and those of other users are written
// in place, like the shell's > does; a link remains a link. Throws Error(environment), also for a
// file that nobody may write.
void write_user_file(const std::string& path, const std::function<void(OutputFile&)>& write);
void write_user_file(const std::string& path, std::string_view content);

// Appends a line, after a newline if the file does not end in one. Throws Error(environment).
void append_line_to_user_file(const std::string& path, std::string_view line);

}  // namespace forge
