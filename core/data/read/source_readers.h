#pragma once
// Functions that the readers of sources share. The interface is sources.h.
#include <memory>
#include <string>

#include "core/data/read/sources.h"

namespace forge {

std::unique_ptr<RowSource> open_json_array(const std::string& path);

// Adds `bytes` to a row's text, or only counts them once it is too long.
void add_text(SourceRow& row, std::string_view bytes);
// Reads a line to its end, without CRLF's \r, into `row`, which is bounded. Returns false at the
// end of the file. `piece` is a buffer for reuse.
bool add_line(ByteReader& reader, SourceRow& row, std::string& piece);

// Throws Error(data) "path:line:column: problem".
[[noreturn]] void fail_at(const std::string& path, int64_t line, int64_t column, const std::string& problem,
                          const std::string& hint = "");

}  // namespace forge
