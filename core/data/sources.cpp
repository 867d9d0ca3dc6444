#include "core/data/sources.h"

#include <algorithm>
#include <filesystem>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/io/byte_reader.h"

namespace forge {
namespace {

constexpr int64_t kMaxDocumentBytes = int64_t{256} << 20;

[[noreturn]] void fail(const std::string& path, int64_t line, int64_t column, const std::string& problem) {
  throw Error(ErrorKind::data,
              path + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + problem);
}

bool is_blank(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class JsonLines : public RowSource {
 public:
  explicit JsonLines(const std::string& path) : reader_(path) {}

  bool next(SourceRow& row) override {
    do {
      row.line = reader_.line();
      row.column = 1;
      if (!reader_.read_line(row.text, kMaxRowBytes)) return false;
      if (static_cast<int64_t>(row.text.size()) > kMaxRowBytes)
        fail(reader_.path(), row.line, 1, "a line of more than " + format_bytes(kMaxRowBytes));
      if (!row.text.empty() && row.text.back() == '\r') row.text.pop_back();
    } while (trim(row.text).empty());
    return true;
  }
  int64_t file_position() const override { return reader_.file_position(); }

 private:
  ByteReader reader_;
};

// Cuts the elements out of the array by brackets and quotes alone. What is inside an element is checked when
// it is parsed; here only what lies between elements is.
class JsonArray : public RowSource {
 public:
  explicit JsonArray(const std::string& path) : reader_(path) { find_array(); }

  bool next(SourceRow& row) override {
    if (done_) return false;
    skip_blanks();
    if (reader_.peek() == ']' && first_) return finish();
    if (!first_) {
      if (reader_.peek() == ']') return finish();
      expect(',', "a comma or ] after a row");
      skip_blanks();
    }
    first_ = false;
    read_value(row);
    return true;
  }
  int64_t file_position() const override { return reader_.file_position(); }

 private:
  void skip_blanks() {
    while (is_blank(reader_.peek())) reader_.advance();
  }
  [[noreturn]] void unexpected(const std::string& expected) {
    const int c = reader_.peek();
    const std::string found =
        c < 0 ? "the file ends here" : std::string("found '") + static_cast<char>(c) + "'";
    fail(reader_.path(), reader_.line(), reader_.column(), found + ", expected " + expected);
  }
  void expect(char c, const std::string& what) {
    if (reader_.peek() != c) unexpected(what);
    reader_.advance();
  }

  // The file is the array, or an object with one array among its members, which members before it may
  // precede.
  void find_array() {
    skip_blanks();
    if (reader_.peek() < 0) fail(reader_.path(), 1, 1, "empty, expected a JSON array of rows");
    if (reader_.peek() == '[') return reader_.advance();
    expect('{', "[ (an array of rows) or { (an object that holds one)");
    in_object_ = true;
    for (skip_blanks(); reader_.peek() != '}'; skip_blanks()) {
      skip_key();
      if (reader_.peek() == '[') return reader_.advance();
      SourceRow ignored;
      read_value(ignored);
      skip_blanks();
      if (reader_.peek() == ',')
        reader_.advance();
      else if (reader_.peek() != '}')
        unexpected("a comma or }");
    }
    fail(reader_.path(), reader_.line(), reader_.column(),
         "the object holds no array, expected one array of rows");
  }

  void skip_key() {
    skip_blanks();
    if (reader_.peek() != '"') unexpected("a key in quotes");
    SourceRow key;
    read_value(key);
    skip_blanks();
    expect(':', "a colon");
    skip_blanks();
  }

  bool finish() {
    reader_.advance();
    for (skip_blanks(); in_object_ && reader_.peek() != '}'; skip_blanks()) {
      expect(',', "a comma or }");
      skip_key();
      if (reader_.peek() == '[')
        fail(reader_.path(), reader_.line(), reader_.column(),
             "a second array in the object, expected one array of rows");
      SourceRow ignored;
      read_value(ignored);
    }
    if (in_object_) reader_.advance();
    skip_blanks();
    if (reader_.peek() >= 0) unexpected("the end of the file");
    done_ = true;
    return false;
  }

  // One value, from its first byte to its last.
  void read_value(SourceRow& row) {
    row.line = reader_.line();
    row.column = reader_.column();
    row.text.clear();
    int64_t depth = 0;
    bool quoted = false;
    while (true) {
      const int c = reader_.peek();
      if (c < 0) unexpected(quoted ? "the end of a text" : "the rest of the value");
      // A bare word or number ends before a delimiter.
      if (!quoted && depth == 0 && (c == ',' || c == ']' || c == '}' || c == ':' || is_blank(c))) break;
      take(row);
      if (quoted && c == '\\' && reader_.peek() >= 0)
        take(row);
      else if (c == '"')
        quoted = !quoted;
      else if (!quoted && (c == '{' || c == '['))
        ++depth;
      else if (!quoted && (c == '}' || c == ']'))
        --depth;
      if (!quoted && depth == 0 && (c == '"' || c == '}' || c == ']')) break;
    }
    if (row.text.empty()) unexpected("a value");
  }
  void take(SourceRow& row) {
    if (static_cast<int64_t>(row.text.size()) >= kMaxRowBytes)
      fail(reader_.path(), row.line, row.column, "a row of more than " + format_bytes(kMaxRowBytes));
    row.text += static_cast<char>(reader_.peek());
    reader_.advance();
  }

  ByteReader reader_;
  bool in_object_ = false, first_ = true, done_ = false;
};

class PlainText : public RowSource {
 public:
  explicit PlainText(const std::string& path) : reader_(path) {}

  bool next(SourceRow& row) override {
    if (done_) return false;
    done_ = true;
    row = SourceRow{1, 1, ""};
    for (std::string line; reader_.read_line(line, kMaxDocumentBytes);) {
      row.text += line;
      if (reader_.column() == 1) row.text += '\n';
      if (static_cast<int64_t>(row.text.size()) > kMaxDocumentBytes)
        fail(reader_.path(), reader_.line(), 1, "a document of more than " + format_bytes(kMaxDocumentBytes));
    }
    check_utf8(row);
    return true;
  }
  int64_t file_position() const override { return reader_.file_position(); }

 private:
  void check_utf8(const SourceRow& row) {
    size_t bad = 0;
    if (valid_utf8(row.text, &bad)) return;
    const std::string_view before = std::string_view(row.text).substr(0, bad);
    const auto newline = before.rfind('\n');
    const auto column = newline == std::string_view::npos ? bad : bad - newline - 1;
    fail(reader_.path(), row.line + std::count(before.begin(), before.end(), '\n'),
         static_cast<int64_t>(column) + 1, "not valid UTF-8");
  }

  ByteReader reader_;
  bool done_ = false;
};

}  // namespace

SourceKind source_kind(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status)) {
    if (path.find_first_of("*?") != std::string::npos)
      throw Error(ErrorKind::data, path + ": patterns are not supported, expected one file")
          .hint("list the files");
    throw Error(ErrorKind::data, path + ": no such file")
        .hint("relative paths start at the job file's folder");
  }
  if (std::filesystem::is_directory(status))
    throw Error(ErrorKind::data, path + ": is a folder, expected a file")
        .hint("list its files in data.train");
  if (!std::filesystem::is_regular_file(status))
    throw Error(ErrorKind::data, path + ": is not a regular file (a pipe or device)");
  const std::string extension = lower(std::filesystem::path(path).extension().string());
  if (extension == ".jsonl" || extension == ".ndjson") return SourceKind::json_lines;
  if (extension == ".json") return SourceKind::json_array;
  if (extension == ".txt" || extension == ".md") return SourceKind::plain_text;
  throw Error(ErrorKind::data, path + ": unknown extension \"" + extension +
                                   "\", expected .jsonl, .ndjson, .json, .txt or .md")
      .hint("convert it to JSONL: one JSON object a line");
}

std::unique_ptr<RowSource> open_source(const std::string& path) {
  switch (source_kind(path)) {
    case SourceKind::json_lines:
      return std::make_unique<JsonLines>(path);
    case SourceKind::json_array:
      return std::make_unique<JsonArray>(path);
    case SourceKind::plain_text:
      return std::make_unique<PlainText>(path);
  }
  FORGE_CHECK(false, "a source kind without a reader");
}

Json parse_row(const SourceRow& row, const std::string& path) {
  // Blanks stand for what precedes the row on its first line, so that the parser counts columns right.
  if (row.column == 1) return parse_json(row.text, path, ErrorKind::data, {}, row.line);
  const std::string text = std::string(static_cast<size_t>(row.column - 1), ' ') + row.text;
  return parse_json(text, path, ErrorKind::data, {}, row.line);
}

}  // namespace forge
