#include "core/data/read/sources.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/data/read/source_readers.h"
#include "core/job/row_template.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/encoding.h"
#include "core/lib/io/parquet.h"

namespace forge {
namespace {

class JsonLines : public RowSource {
 public:
  explicit JsonLines(const std::string& path) : reader_(path) {}

  bool next(SourceRow& row) override {
    do {
      row = {reader_.line(), reader_.column(), ""};
      if (!add_line(reader_, row, line_)) return false;
    } while (row.too_long == 0 && trim(row.text).empty());
    return true;
  }
  int64_t file_position() const override { return reader_.file_position(); }

 private:
  ByteReader reader_;
  std::string line_;
};

class Table : public RowSource {
 public:
  Table(const std::string& path, char delimiter) : file_(path, delimiter, kMaxRowBytes) {}

  bool next(SourceRow& row) override {
    CsvRecord record;
    if (!file_.next(record)) return false;
    row = {record.line, record.column, std::move(record.text), RowKind::csv, file_.table(), record.too_long};
    return true;
  }
  int64_t file_position() const override { return file_.file_position(); }

 private:
  CsvFile file_;
};

// Reads documents, paragraphs or lines. Blank paragraphs and lines are not rows.
class PlainText : public RowSource {
 public:
  PlainText(const std::string& path, SampleBy sample_by) : reader_(path), sample_by_(sample_by) {}

  bool next(SourceRow& row) override {
    row = {reader_.line(), reader_.column(), "", RowKind::text};
    if (sample_by_ == SampleBy::document) return document(row);
    while (row.text.empty() && row.too_long == 0) {
      row = {reader_.line(), reader_.column(), "", RowKind::text};
      SourceRow line;
      if (!add_line(reader_, line, piece_)) return false;
      do {
        if (line.too_long == 0 && trim(line.text).empty()) break;
        if (!row.text.empty()) row.text += '\n';
        if (line.too_long > 0)
          row.too_long += line.too_long + static_cast<int64_t>(std::exchange(row.text, "").size());
        else
          add_text(row, line.text);
        line = {};
      } while (sample_by_ == SampleBy::paragraph && add_line(reader_, line, piece_));
    }
    return true;
  }
  int64_t file_position() const override { return reader_.file_position(); }

 private:
  // Reads the whole document; an empty file is an empty document.
  bool document(SourceRow& row) {
    if (done_) return false;
    done_ = true;
    while (reader_.read_line(piece_, kMaxDocumentBytes)) {
      row.text += piece_;
      if (reader_.column() == 1) row.text += '\n';
      if (static_cast<int64_t>(row.text.size()) > kMaxDocumentBytes)
        throw PlacedError(ErrorKind::data, {reader_.path(), row.line, 1},
                          "a document of more than " + format_bytes(kMaxDocumentBytes));
    }
    return true;
  }

  ByteReader reader_;
  SampleBy sample_by_;
  std::string piece_;
  bool done_ = false;
};

// Returns the columns that any row format may read, under the file's names.
std::vector<std::string> columns_read(const DataSource& source) {
  std::vector<std::string> columns;
  std::string ignored;  // the job has been checked
  for (const auto* text : {&source.prompt, &source.completion})
    for (const TemplatePiece& piece :
         *text ? parse_row_template(**text, ignored) : std::vector<TemplatePiece>{})
      if (piece.is_field) columns.push_back(piece.text);
  if (!columns.empty()) return columns;
  for (const std::string& field : row_fields())
    if (source.columns.count(field) == 0) columns.push_back(field);
  for (const auto& [field, column] : source.columns) columns.push_back(column);
  return columns;
}

// Reads Parquet rows, which are JSON already; positions are row numbers.
class ParquetRows : public RowSource {
 public:
  ParquetRows(const std::string& path, const DataSource& source) : path_(path), file_(open_parquet(path)) {
    for (const std::string& column : columns_read(source))
      for (const ParquetColumn& absent : file_->left_out())
        if (column == absent.name || starts_with(column, absent.name + "."))
          throw Error(ErrorKind::data, path + ": the column " + absent.name + " is " + absent.type +
                                           ", expected texts, numbers, lists or structs")
              .hint("write the column as text, or name another one in columns");
  }
  bool next(SourceRow& row) override {
    row = {++row_, 0, ""};
    std::string text;
    if (!file_->next(text)) return false;
    add_text(row, text);
    return true;
  }
  int64_t file_position() const override { return file_->file_position(); }

 private:
  std::string path_;
  std::unique_ptr<ParquetFile> file_;
  int64_t row_ = 0;
};

struct Extension {
  const char* name;
  SourceKind kind;
};
constexpr Extension kExtensions[] = {
    {".jsonl", SourceKind::json_lines}, {".ndjson", SourceKind::json_lines},
    {".json", SourceKind::json_array},  {".csv", SourceKind::csv},
    {".tsv", SourceKind::tsv},          {".txt", SourceKind::plain_text},
    {".md", SourceKind::plain_text},    {".parquet", SourceKind::parquet},
};

// Returns ".jsonl" for "a.jsonl.gz".
std::string data_extension(const std::string& path) {
  std::filesystem::path name(path);
  const std::string last = lower(name.extension().string());
  if (last == ".gz" || last == ".zst" || last == ".zstd") name.replace_extension();
  return lower(name.extension().string());
}

// Throws PlacedError(data) for a byte of value 0: UTF-8 allows it, but no text has it. JSON refuses
// it by itself.
void refuse_nul(const SourceRow& row, const std::string& path) {
  const size_t nul = row.text.find('\0');
  if (nul != std::string::npos)
    throw PlacedError(ErrorKind::data, place_of_byte(row, nul, path),
                      "a byte of value 0, expected text: the file is binary, damaged, or UTF-16 (iconv -f "
                      "UTF-16LE -t UTF-8 OLD > NEW)");
}

Json parse_text_row(const SourceRow& row, const std::string& path) {
  size_t bad = 0;
  refuse_nul(row, path);
  if (valid_utf8(row.text, &bad)) return {{"text", row.text}};
  throw PlacedError(ErrorKind::data, place_of_byte(row, bad, path), utf8_problem(row.text, bad));
}

// Returns the problem of a text that Python wrote and that is not JSON, outside of quoted texts; ""
// if there is none.
std::string python_problem(std::string_view text) {
  bool quoted = false, dictionary = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
      continue;
    }
    if (text[i] == '"') quoted = !quoted;
    const bool starts =
        !quoted && (i == 0 || std::string_view(" \t:,[{-(").find(text[i - 1]) != std::string_view::npos);
    if (!starts) continue;
    for (const std::string_view word : {"NaN", "Infinity", "inf", "nan"})
      if (starts_with(text.substr(i), word))
        return std::string(word) +
               " is not JSON, expected a number or null: json.dumps writes it for a missing float";
    for (const std::string_view word : {"True", "False", "None", "'"})
      dictionary |= starts_with(text.substr(i), word);
  }
  const bool object = starts_with(trim(text), "{") || starts_with(trim(text), "[");
  return dictionary && object
             ? "a Python object (single quotes, True, None), expected JSON: write it with json.dumps(row)"
             : "";
}

// Returns the position in the file. The parser counts columns from the row's first byte; on its
// first line the row may begin further right, and in a file without lines its columns mean nothing.
PlaceInFile shifted(PlaceInFile at, const SourceRow& row) {
  if (at.line == row.line) at.column = row.column == 0 ? 0 : at.column + row.column - 1;
  return at;
}

std::vector<CsvCell> cells_of(const SourceRow& row, const std::string& path) {
  return parse_csv_record({row.line, row.column, row.text}, *row.table, path);
}

Json parse_csv_row(const SourceRow& row, const std::string& path) {
  refuse_nul(row, path);
  const std::vector<CsvCell> cells = cells_of(row, path);
  Json object = Json::object();
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool absent = cells[i].text.empty() && !cells[i].quoted;
    append_member(object, row.table->header[i],
                  absent ? Json(nullptr) : Json(cells[i].text));  // if the names differ
  }
  return object;
}

}  // namespace

std::optional<SourceKind> kind_by_name(const std::string& path) {
  const std::string extension = data_extension(path);
  for (const Extension& entry : kExtensions)
    if (extension == entry.name) return entry.kind;
  return std::nullopt;
}

SourceKind source_kind(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status))
    throw Error(ErrorKind::data, path + ": no such file");
  if (std::filesystem::is_directory(status))
    throw Error(ErrorKind::data, path + ": is a folder, expected a file");
  if (!std::filesystem::is_regular_file(status))
    throw Error(ErrorKind::data, path + ": is not a regular file (a pipe or device)");
  if (const auto kind = kind_by_name(path)) return *kind;
  throw Error(ErrorKind::data, path + ": unknown extension \"" + data_extension(path) +
                                   "\", expected .jsonl, .ndjson, .json, .csv, .tsv, .txt, .md or .parquet")
      .hint("convert it to JSONL: one JSON object a line");
}

RowKind row_kind(const std::string& path) {
  const SourceKind kind = source_kind(path);
  if (kind == SourceKind::plain_text) return RowKind::text;
  return kind == SourceKind::csv || kind == SourceKind::tsv ? RowKind::csv : RowKind::json;
}

std::unique_ptr<RowSource> open_source(const std::string& path, const DataSource& source) {
  const SourceKind kind = source_kind(path);
  if (kind != SourceKind::plain_text && source.sample_by != SampleBy::document)
    throw Error(ErrorKind::data, path + ": has rows of its own; sample_by is for text files")
        .hint("remove sample_by");
  switch (kind) {
    case SourceKind::json_lines:
      return std::make_unique<JsonLines>(path);
    case SourceKind::json_array:
      return open_json_array(path);
    case SourceKind::csv:
      return std::make_unique<Table>(path, ',');
    case SourceKind::tsv:
      return std::make_unique<Table>(path, '\t');
    case SourceKind::plain_text:
      return std::make_unique<PlainText>(path, source.sample_by);
    case SourceKind::parquet:
      return std::make_unique<ParquetRows>(path, source);
  }
  FORGE_CHECK(false, "a source kind without a reader");
}

Json parse_row(const SourceRow& row, const std::string& path) {
  if (row.too_long > 0)
    throw PlacedError(
        ErrorKind::data, {path, row.line, row.column},
        "a row of " + format_bytes(row.too_long) + ", expected at most " + format_bytes(kMaxRowBytes));
  if (row.kind == RowKind::text) return parse_text_row(row, path);
  if (row.kind == RowKind::csv) return parse_csv_row(row, path);
  try {
    return parse_json(row.text, path, ErrorKind::data, {}, row.line);
  } catch (const PlacedError& error) {
    const std::string problem = python_problem(row.text);
    throw PlacedError(error.kind(), shifted(error.at(), row), problem.empty() ? error.problem() : problem,
                      error.hint());
  }
}

std::string place_in_row(const SourceRow& row, const std::string& pointer, const std::string& path) {
  if (row.column == 0) return place_text(row.line, 0);
  if (row.kind == RowKind::json) return place_of(row, pointer);
  if (row.kind == RowKind::text) return place_text(row.line, row.column);
  const std::vector<CsvCell> cells = cells_of(row, path);
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string start = "/" + row.table->header[i];
    if (pointer == start || starts_with(pointer, start + "/"))
      return place_text(cells[i].line, cells[i].column);
  }
  return place_text(row.line, row.column);
}

}  // namespace forge
