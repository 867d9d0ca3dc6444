#include "tests/fuzz/rows.h"

#include <algorithm>

#include "core/data/rows/mapping.h"
#include "core/data/rows/rows.h"
#include "core/data/read/sources.h"
#include "tests/fuzz/target.h"

namespace forge {
namespace {

// More rows of two letters would find no further faults and take 20 s in this build.
constexpr int64_t kConvertedRows = 100;

constexpr RowFormat kFormats[] = {RowFormat::messages, RowFormat::sharegpt,   RowFormat::alpaca,
                                  RowFormat::text,     RowFormat::tokens,     RowFormat::prompt_completion,
                                  RowFormat::prompt,   RowFormat::preference, RowFormat::kto,
                                  RowFormat::reward};

// Returns a mapping with dotted paths and roles under other names.
RowMapping mapping_for(RowKind kind) {
  DataSource source;
  source.columns = {{"prompt", "a.b"}, {"completion", "choices.0.text"}};
  return RowMapping(source, kind);
}

void convert(const SourceRow& row, const Json& json, const std::string& path) {
  for (const RowFormat format : kFormats) {
    RowFaults faults;
    const std::optional<Row> converted = convert_row(json, format, {.vocab_size = 1000}, faults);
    if (converted) content_of(*converted);
    for (size_t i = 0; i < std::min(faults.size(), kPlacedPerRow); ++i)
      place_in_row(row, faults[i].pointer, path);
  }
}

}  // namespace

void read_source(const std::string& path) {
  const auto source = open_source(path);
  std::vector<LocatedRow> first;
  int64_t rows = 0;
  for (SourceRow row; source->next(row);) {
    read_or_refuse([&] {
      RowFaults faults;
      const Json json = parse_row(row, path);
      if (++rows > kConvertedRows) return;
      convert(row, json, path);
      const Json mapped = mapping_for(row.kind).apply(json, faults);
      convert(row, mapped, path);
      if (first.size() < 8) first.push_back({json, row.line});
    });
  }
  detect_format(first, path);
}

}  // namespace forge
