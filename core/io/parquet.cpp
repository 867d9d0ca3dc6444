#include "core/io/parquet.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/io/compressed.h"

namespace forge {
namespace {

// Parquet begins and ends with these (Apache Parquet format, "File format").
void check_magic(const std::string& path) {
  InputFile file(path);
  char magic[4] = {};
  const int64_t count = file.read(magic, 4);
  const std::string_view start(magic, static_cast<size_t>(count));
  if (start == "PAR1") return;
  if (start == "PARE") throw Error(ErrorKind::data, path + ": is encrypted Parquet, expected plain Parquet");
  throw Error(ErrorKind::data, path + ": is not Parquet: it does not begin with PAR1");
}

}  // namespace

std::unique_ptr<ParquetFile> open_parquet(const std::string& path) {
  check_magic(path);
  const std::string out = std::filesystem::path(path).replace_extension(".jsonl").string();
  throw Error(ErrorKind::environment, path + ": Parquet is not read by this build of forge")
      .hint("convert it: pip install pandas pyarrow && python3 -c \"import pandas; pandas.read_parquet('" +
            path + "').to_json('" + out + "', orient='records', lines=True, force_ascii=False)\"");
}

}  // namespace forge
