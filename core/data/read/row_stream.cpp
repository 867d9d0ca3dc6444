#include "core/data/read/row_stream.h"

#include <algorithm>

#include "core/data/rows/formats/format.h"
#include "core/data/rows/mapping.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/column.h"
#include "core/lib/io/compressed.h"

namespace forge {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr size_t kChunkRows = 4096;
constexpr size_t kDetectionRows = 32;
constexpr int64_t kTypicalRatio = 4;  // for gzipped JSON

// Throws Error(data) if the job names a column for a field without which rows have no format, and
// none of the first rows has the column: any other reading of them would not be the job's.
void require_columns(const RowMapping& mapping, const std::vector<Json>& rows, const std::string& path) {
  for (const auto& [field, place] : mapping.columns()) {
    const auto has = [&](const Json& row) { return !row.is_object() || find_column(row, place); };
    if (rows.empty() || !marks_format(field) || std::any_of(rows.begin(), rows.end(), has)) continue;
    const std::vector<std::string> keys = keys_of(rows.front());
    const std::string which = rows.size() == 1 ? "the first row does not have" : "none of the first " + std::to_string(rows.size()) + " rows has";
    throw Error(ErrorKind::data, path + ": columns names " + place + " for " + field + ", which " + which + did_you_mean(place, keys))
        .hint("name a column that is there: " + join(keys, ", "));
  }
}

// Returns the job's format, or the format of the first rows that parse.
Detected settle_format(const SourceFile& file, bool sources) {
  const DataSource& source = file.source;
  const RowKind kind = row_kind(file.path);
  if (kind == RowKind::text) {
    if (source.format != RowFormat::automatic && source.format != RowFormat::text)
      throw Error(ErrorKind::data,
                  file.path + ": a text file has format text, the job says " + name_of(source.format))
          .hint("leave format out, or write the rows as JSONL");
    return {RowFormat::text, "a text file"};
  }
  if (source.prompt) return {RowFormat::prompt_completion, "by the job's prompt"};
  if (source.format != RowFormat::automatic) return {source.format, "as the job says"};
  const RowMapping mapping(source, kind);
  std::vector<LocatedRow> rows;
  std::vector<Json> read;
  auto reader = open_source(file.path, file.source);
  std::string first_fault;
  SourceRow row;
  bool opens = false;  // the first line is a lone bracket
  for (size_t i = 0; i < kDetectionRows && reader->next(row); ++i) {
    opens |= i == 0 && (trim(row.text) == "[" || trim(row.text) == "{");
    try {
      RowFaults ignored;
      read.push_back(parse_row(row, file.path));
      rows.push_back({mapping.apply(read.back(), ignored), row.line});
    } catch (const Error& error) {
      if (first_fault.empty()) first_fault = error.what();
    }
  }
  // Broken rows are reported later with the others. This fails only if nothing parses, or the first
  // line is a lone bracket.
  if (!first_fault.empty() && opens)
    throw Error(ErrorKind::data, first_fault)
        .hint("JSONL holds one object per line: join the object's lines, or name an array of rows .json");
  if (rows.empty() && !first_fault.empty()) throw Error(ErrorKind::data, first_fault);
  require_columns(mapping, read, file.path);
  return detect_format(rows, file.path, sources);
}

}  // namespace

RowStream::RowStream(std::vector<SourceFile> files, std::optional<int64_t> byte_budget, bool sources)
    : files_(std::move(files)) {
  int64_t text_bytes = 0;
  for (SourceFile& file : files_) {
    formats_.push_back(settle_format(file, sources));
    file.source.columns.insert(formats_.back().columns.begin(), formats_.back().columns.end());
    sizes_.push_back(file_size(file.path));
    total_bytes_ += sizes_.back();
    text_bytes += sizes_.back() * (InputFile(file.path).compressed() ? kTypicalRatio : 1);
  }
  partial_ = byte_budget && text_bytes > *byte_budget;
  for (int64_t size : sizes_) {
    const double share = partial_ ? static_cast<double>(*byte_budget) / static_cast<double>(text_bytes) : 1;
    budgets_.push_back(partial_ ? static_cast<int64_t>(share * static_cast<double>(size)) : INT64_MAX);
  }
}

// True if another row may be read. The first row of a file is always read, whatever the budget.
bool RowStream::may_take(const SourceFile& file) const {
  return (!file.source.limit || rows_ < *file.source.limit) &&
         (file_rows_ == 0 || file_bytes_ < budgets_[current_]);
}

bool RowStream::next(RowChunk& chunk) {
  chunk = RowChunk{};
  for (; current_ < files_.size(); ++current_, open_.reset()) {
    const SourceFile& file = files_[current_];
    if (!open_) {
      if (file.entry != entry_) rows_ = skipped_ = 0;
      entry_ = file.entry;
      file_rows_ = file_bytes_ = 0;
      open_ = open_source(file.path, file.source);
    }
    chunk.source = current_;
    chunk.format = formats_[current_].format;
    SourceRow row;
    for (int64_t text_bytes = 0;
         text_bytes < kChunkBytes && chunk.rows.size() < kChunkRows && may_take(file) && open_->next(row);) {
      ++file_rows_;
      chunk.bytes += open_->file_position() - file_bytes_;
      file_bytes_ = open_->file_position();
      if (skipped_ < file.source.skip) {
        ++skipped_;
        continue;
      }
      ++rows_;
      text_bytes += static_cast<int64_t>(row.text.size());
      chunk.rows.push_back(std::move(row));
    }
    if (!chunk.rows.empty()) return true;
  }
  return false;
}

std::vector<RowFormat> RowStream::formats() const {
  std::vector<RowFormat> formats;
  for (const Detected& detected : formats_)
    if (std::find(formats.begin(), formats.end(), detected.format) == formats.end())
      formats.push_back(detected.format);
  return formats;
}

std::string RowStream::advice() const {
  for (const Detected& detected : formats_)
    if (!detected.advice.empty()) return detected.advice;
  return "";
}

std::string RowStream::formats_text() const {
  std::vector<std::string> parts;
  for (RowFormat format : formats()) {
    const auto first = std::find_if(formats_.begin(), formats_.end(),
                                    [&](const Detected& detected) { return detected.format == format; });
    parts.push_back(std::string(name_of(format)) + ": " + first->reason);
  }
  return join(parts, "; ");
}

}  // namespace forge
