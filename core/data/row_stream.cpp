#include "core/data/row_stream.h"

#include <algorithm>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/io/compressed.h"

namespace forge {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr size_t kChunkRows = 4096;
constexpr size_t kDetectionRows = 32;
constexpr int64_t kTypicalRatio = 4;  // of JSON under gzip

// The job's format, or what the first rows that parse look like.
RowFormat settle_format(const DataSource& source) {
  if (source_kind(source.path) == SourceKind::plain_text) {
    if (source.format != RowFormat::automatic && source.format != RowFormat::text)
      throw Error(ErrorKind::data,
                  source.path + ": a text file has format text, the job says " + name_of(source.format))
          .hint("leave format out, or write the rows as JSONL");
    return RowFormat::text;
  }
  if (source.format != RowFormat::automatic) return source.format;
  std::vector<LocatedRow> rows;
  auto reader = open_source(source.path);
  std::string first_fault;
  SourceRow row;
  for (size_t i = 0; i < kDetectionRows && reader->next(row); ++i) {
    try {
      rows.push_back({parse_row(row, source.path), row.line});
    } catch (const Error& error) {
      if (first_fault.empty()) first_fault = error.what();
    }
  }
  // Broken rows are reported with all others later; only when nothing parses is there nothing to go on.
  if (rows.empty() && !first_fault.empty()) throw Error(ErrorKind::data, first_fault);
  return detect_format(rows, source.path);
}

}  // namespace

RowStream::RowStream(std::vector<DataSource> sources, std::optional<int64_t> byte_budget)
    : sources_(std::move(sources)) {
  int64_t text_bytes = 0;
  for (const DataSource& source : sources_) {
    formats_.push_back(settle_format(source));
    sizes_.push_back(file_size(source.path));
    total_bytes_ += sizes_.back();
    text_bytes += sizes_.back() * (InputFile(source.path).compressed() ? kTypicalRatio : 1);
  }
  partial_ = byte_budget && text_bytes > *byte_budget;
  for (int64_t size : sizes_) {
    const double share = partial_ ? static_cast<double>(*byte_budget) / static_cast<double>(text_bytes) : 1;
    budgets_.push_back(partial_ ? static_cast<int64_t>(share * static_cast<double>(size)) : INT64_MAX);
  }
}

bool RowStream::next(RowChunk& chunk) {
  chunk = RowChunk{};
  for (; current_ < sources_.size(); ++current_, open_.reset()) {
    const DataSource& source = sources_[current_];
    if (!open_) {
      open_ = open_source(source.path);
      rows_ = bytes_ = 0;
    }
    chunk.source = current_;
    chunk.format = formats_[current_];
    chunk.plain_text = source_kind(source.path) == SourceKind::plain_text;
    SourceRow row;
    // The first row comes whatever the budget is.
    int64_t text_bytes = 0;
    while (text_bytes < kChunkBytes && chunk.rows.size() < kChunkRows &&
           (!source.limit || rows_ < *source.limit) && (rows_ == 0 || bytes_ < budgets_[current_]) &&
           open_->next(row)) {
      text_bytes += static_cast<int64_t>(row.text.size());
      ++rows_;
      chunk.bytes += open_->file_position() - bytes_;
      bytes_ = open_->file_position();
      chunk.rows.push_back(std::move(row));
    }
    if (!chunk.rows.empty()) return true;
  }
  return false;
}

std::string RowStream::formats() const {
  std::vector<std::string> names;
  for (RowFormat format : formats_)
    if (std::find(names.begin(), names.end(), name_of(format)) == names.end())
      names.emplace_back(name_of(format));
  return join(names, ", ");
}

}  // namespace forge
