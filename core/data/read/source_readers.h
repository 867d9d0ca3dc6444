#pragma once
// Functions that the readers of sources share. The interface is sources.h.
#include <memory>
#include <string>
#include <string_view>

#include "core/data/read/sources.h"

namespace forge {

std::unique_ptr<RowSource> open_json_array(const std::string& path);

// Adds `bytes` to a row's text, or only counts them once it is too long.
void add_text(SourceRow& row, std::string_view bytes);
// Reads a line to its end, without CRLF's \r, into `row`, which is bounded. Returns false at the
// end of the file. `piece` is a buffer for reuse.
bool add_line(ByteReader& reader, SourceRow& row, std::string& piece);

// Follows the text of a JSON value to its end, by brackets and quotes alone.
class ValueText {
 public:
  // True if the value is a bare word or number that ends before this byte, or if there is none.
  bool ends_before(char c) const {
    constexpr std::string_view kDelimiters = ",]}: \t\r\n";
    return !quoted_ && depth_ == 0 && kDelimiters.find(c) != kDelimiters.npos;
  }
  // Returns true if the value ends with this byte.
  bool ends_with(char c) {
    if (escaped_) return escaped_ = false;
    escaped_ = quoted_ && c == '\\';
    if (c == '"') quoted_ = !quoted_;
    if (!quoted_ && (c == '{' || c == '[')) ++depth_;
    if (!quoted_ && (c == '}' || c == ']')) --depth_;
    return !quoted_ && depth_ == 0 && (c == '"' || c == '}' || c == ']');
  }
  bool quoted() const { return quoted_; }

 private:
  int64_t depth_ = 0;
  bool quoted_ = false, escaped_ = false;
};

}  // namespace forge
