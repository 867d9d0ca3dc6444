// The component libforge-parquet.so: the rows of a Parquet file through Arrow's C++ libraries.
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <filesystem>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/arrow_json.h"
#include "core/lib/io/parquet_component.h"

namespace forge {
namespace {

// A page may claim 2 GiB; what a file needs of memory is a few pages.
constexpr int64_t kMostMemory = int64_t{1} << 30;
constexpr int64_t kBatchBytes = int64_t{1} << 20;
constexpr int64_t kMostBatchRows = 1024;

template <class T>
T value_of(arrow::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).ValueUnsafe();
}

void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const auto& child : field.children) add_leaves(child, leaves);
}

class ArrowRows : public ParquetFile {
 public:
  explicit ArrowRows(const std::string& path) : path_(path) {
    explain_faults([&] { open(); });
  }

  bool next(std::string& row) override {
    bool more = false;
    explain_faults([&] { more = read_next(row); });
    return more;
  }
  const std::vector<ParquetColumn>& left_out() const override { return left_out_; }
  int64_t file_position() const override {
    return rows_ == 0 ? file_bytes_
                      : static_cast<int64_t>(static_cast<double>(file_bytes_) * static_cast<double>(given_) /
                                             static_cast<double>(rows_));
  }

 private:
  // Reports Arrow's errors, thrown or returned, with the position. Some of its messages span
  // several lines.
  template <class Action>
  void explain_faults(Action action) {
    const std::string place =
        batches_ ? ":row " + std::to_string(given_ + 1) + ": " : ": cannot be read as Parquet: ";
    try {
      action();
    } catch (const std::exception& error) {
      std::string what = error.what();
      std::replace(what.begin(), what.end(), '\n', ' ');
      throw Error(ErrorKind::data, path_ + place + what);
    }
  }

  void open() {
    file_bytes_ = static_cast<int64_t>(std::filesystem::file_size(path_));
    parquet::ReaderProperties pages(&pool_);
    pages.enable_buffered_stream();  // otherwise a column of a row group is read in full
    parquet::ArrowReaderProperties options(/*use_threads=*/false);
    options.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    const arrow::Status opened = builder.Open(value_of(arrow::io::ReadableFile::Open(path_, &pool_)), pages);
    if (!opened.ok()) throw std::runtime_error(opened.message());
    builder.memory_pool(&pool_)->properties(options);
    reader_ = value_of(builder.Build());
    reader_->set_batch_size(batch_rows(*reader_->parquet_reader()->metadata()));
    std::vector<int> groups(static_cast<size_t>(reader_->num_row_groups()));
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int>(i);
    const std::vector<int> columns = choose_columns();
    batches_ = value_of(reader_->GetRecordBatchReader(groups, columns));
  }

  int64_t batch_rows(const parquet::FileMetaData& metadata) {
    rows_ = metadata.num_rows();
    int64_t bytes = 0;
    for (int i = 0; i < metadata.num_row_groups(); ++i)
      bytes += std::clamp<int64_t>(metadata.RowGroup(i)->total_byte_size(), 0, int64_t{1} << 40);
    const int64_t row_bytes = bytes / std::max<int64_t>(1, rows_) + 1;
    return std::clamp<int64_t>(kBatchBytes / row_bytes, 1, kMostBatchRows);
  }

  // Returns the leaves of all columns that can be represented in JSON.
  std::vector<int> choose_columns() {
    std::vector<int> leaves;
    std::vector<std::string> names;
    for (const auto& column : reader_->manifest().schema_fields) {
      const std::string& name = column.field->name();
      if (std::find(names.begin(), names.end(), name) != names.end())
        throw std::runtime_error("the column " + name + " appears twice");
      names.push_back(name);
      if (const std::string type = type_without_json(*column.field->type()); !type.empty())
        left_out_.push_back({name, type});
      else
        add_leaves(column, leaves);
    }
    if (leaves.empty()) throw std::runtime_error("it has no column of texts, numbers, lists or structs");
    return leaves;
  }

  bool read_next(std::string& row) {
    while (!batch_ || in_batch_ == batch_->num_rows()) {
      batch_ = value_of(batches_->Next());
      if (!batch_ && given_ < rows_)
        throw std::runtime_error("the file ends here, expected " + format_count(rows_) + " rows");
      if (!batch_) return false;
      if (const arrow::Status status = batch_->Validate(); !status.ok())
        throw std::runtime_error(status.message());
      in_batch_ = 0;
    }
    Json object = Json::object();
    for (int i = 0; i < batch_->num_columns(); ++i)
      object[batch_->column_name(i)] = json_of(*batch_->column(i), in_batch_, batch_->column_name(i));
    row = dump_json(object);
    ++in_batch_;
    ++given_;
    return true;
  }

  std::string path_;
  arrow::CappedMemoryPool pool_{arrow::default_memory_pool(), kMostMemory};
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::vector<ParquetColumn> left_out_;
  int64_t file_bytes_ = 0, rows_ = 0, given_ = 0, in_batch_ = 0;
};

}  // namespace
}  // namespace forge

extern "C" forge::ParquetFile* forge_open_parquet(const std::string& path) {
  return new forge::ArrowRows(path);
}
