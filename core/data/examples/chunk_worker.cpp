#include "core/data/examples/chunk_worker.h"

#include <algorithm>

#include "core/data/rows/keys.h"
#include "core/data/rows/mapping.h"
#include "core/lib/base/random.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

LostRow located(const Error& error, const SourceRow& row) {
  if (const auto* placed = dynamic_cast<const PlacedError*>(&error))
    return {row.line, place_text(placed->at().line, placed->at().column), placed->problem(), true};
  return {row.line, place_text(row.line, row.column), error.what(), true};
}

// A file of the split, and what its source says.
struct File {
  std::string path;
  RowMapping mapping;
  double weight;
  Stated stated;
};

Stated stated_by(const DataSource& source) {
  if (source.prompt) return Stated::fields;
  return source.format != RowFormat::automatic ? Stated::format : Stated::nothing;
}

// The work on one chunk of a file's rows.
struct ChunkWork {
  const ExampleMaker& maker;
  const EvalShare& share;
  int64_t seed;
  bool look;
  const File& file;
  RowFormat format;
  ChunkResult result;

  void run(const SourceRow& source) {
    RowFaults faults;
    std::vector<std::string> unread;
    std::optional<Row> row;
    try {
      row = convert(source, unread, faults);
    } catch (const Error& error) {
      if (share.eval) return;  // without content it belongs to train, which reports it
      ++result.summary.rows;
      ++result.summary.skipped;
      result.lost.push_back(located(error, source));
      return;
    }
    if (row) return take(source, *row, std::move(unread));
    if (share.eval && share.fraction > 0) return;
    ++result.summary.rows;
    ++result.summary.skipped;
    add_faults(faults, source);
  }

  // Returns the row's meaning; nothing when it has faults.
  std::optional<Row> convert(const SourceRow& source, std::vector<std::string>& unread, RowFaults& faults) {
    Json read = parse_row(source, file.path);
    const std::vector<std::string> absent = file.mapping.absent(read);
    for (const auto& [field, place] : file.mapping.columns())
      result.summary.columns[place + " for " + field] += std::count(absent.begin(), absent.end(), field) == 0;
    const Json json = file.mapping.apply(std::move(read), faults);
    std::optional<Row> row;
    if (faults.empty())
      row = convert_row(
          json, format,
          {maker.has_template(), maker.vocab_size(), maker.reads_source(), maker.user_prompts()}, faults);
    if (row)
      check_keys(json,
                 {format, file.stated, maker.has_template(),
                  [&](const std::string& key) { return maker.template_reads(key); }},
                 unread, faults);
    if (row && !file.mapping.ignores_pictures()) check_placeholders(*row, faults);
    file.mapping.name_absent(absent, faults);
    return faults.empty() ? std::move(row) : std::nullopt;
  }

  void take(const SourceRow& source, const Row& row, std::vector<std::string> unread) {
    const bool decides = share.fraction > 0 || file.weight != 1;
    const std::string content = decides ? content_of(row) : "";
    if (!belongs(content)) return;
    const int64_t count = copies(content);
    if (count == 0) {
      ++result.summary.unsampled;
      return;
    }
    ++result.summary.rows;
    if (const auto* answers = std::get_if<AnswersRow>(&row);
        answers && answers->margin != 0 && !maker.reads_margins())
      unread.push_back("margin");
    note_unread(unread, source);
    RoleTokens roles;
    RowExamples made = make(row, look ? &roles : nullptr);
    if (look) {
      result.looks.push_back(look_at(source, row, made, roles, maker));
      result.looks.back().copies = made.examples.empty() ? 0 : count;
    }
    add(source, std::move(made), count);
  }

  // True if the row belongs to this split: 60 bits of the hash are a number in [0, 1) to compare
  // with the fraction.
  bool belongs(const std::string& content) const {
    if (share.fraction <= 0) return true;
    const uint64_t bits = std::stoull(content.substr(0, 15), nullptr, 16);
    return (static_cast<double>(bits) * 0x1p-60 < share.fraction) == share.eval;
  }

  // Returns the integer part of the weight, plus one for a share of the rows, chosen by seed and
  // row alone.
  int64_t copies(const std::string& content) const {
    if (share.eval || file.weight == 1) return 1;
    const auto whole = static_cast<int64_t>(file.weight);
    const double rest = file.weight - static_cast<double>(whole);
    return whole + (uniform(static_cast<uint64_t>(seed), stream_of("weight/" + content), 0) < rest);
  }

  void note_unread(const std::vector<std::string>& names, const SourceRow& source) {
    for (const std::string& name : names) {
      UnreadKey& key = result.unread[name];
      if (key.rows++ > 0) continue;
      const std::string list = name.substr(0, name.find("[]"));  // of a turn's key; else the whole name
      key.place = place_in_row(source, file.mapping.original("/" + list), file.path);
    }
  }

  void add_faults(const RowFaults& faults, const SourceRow& source) {
    const size_t placed = std::min(faults.size(), kPlacedPerRow);
    for (size_t i = 0; i < placed; ++i)
      result.lost.push_back({source.line,
                             place_in_row(source, file.mapping.original(faults[i].pointer), file.path),
                             faults[i].message, true, i == 0, 1, faults[i].key});
    const auto others = static_cast<int64_t>(faults.size() - placed);
    if (others > 0)
      result.lost.push_back({source.line, place_text(source.line, source.column),
                             "and " + format_count(others) + " more in this row", true, false, others});
  }

  // Makes an example of each answer, chosen before rejected; they are kept or dropped together.
  RowExamples make(const Row& row, RoleTokens* roles) const {
    const auto* answers = std::get_if<AnswersRow>(&row);
    if (!answers) return maker.make(row, roles);
    if (maker.compares() && answers->answers.size() == 2) return maker.make_pair(*answers, roles);
    if (maker.judges()) return maker.make_judged(*answers, roles);
    RowExamples all;
    for (const AnswersRow::Answer& answer : answers->answers) {
      RowExamples made = maker.make(std::visit([](const auto& kind) { return Row(kind); }, answer.row), roles);
      if (made.dropped || !made.problem.empty()) {
        if (!made.problem.empty()) made.problem = answer.name + ": " + made.problem;
        made.examples.clear();
        return made;
      }
      all.labels.insert(all.labels.end(), made.examples.size(), answer.name);
      take_part(std::move(made), all);
    }
    return all;
  }

  void add(const SourceRow& source, RowExamples made, int64_t copies) {
    DataSummary& counts = result.summary;
    counts.truncated += made.truncated;
    counts.split += made.split;
    counts.dropped += made.dropped;
    counts.untrained += made.untrained;
    counts.cuts += made.cuts;
    counts.pairs += made.pairs;
    counts.skipped += !made.problem.empty() && !made.untrained && !made.dropped;
    const std::string place = place_text(source.line, source.column);
    if (!made.problem.empty())
      result.lost.push_back({source.line, place, made.problem, !made.dropped, true, 1, made.problem_key});
    for (int64_t copy = 0; copy < copies; ++copy)
      for (size_t i = 0; i < made.examples.size(); ++i) {
        Example& example = made.examples[i];
        const bool last = copy + 1 == copies;
        result.examples.push_back(
            {last ? std::move(example) : example, source.line, made.labels.empty() ? "" : made.labels[i]});
      }
  }
};

}  // namespace

ChunkWorker chunk_worker(const ExampleMaker& maker, const std::vector<SourceFile>& sources,
                         const EvalShare& share, int64_t seed, bool look) {
  std::vector<File> files;
  for (const auto& [path, source, entry] : sources)
    files.push_back({path, RowMapping(source, row_kind(path)), source.weight, stated_by(source)});
  return [&maker, share, seed, look, files = std::move(files)](const RowChunk& chunk) {
    ChunkWork work{maker, share, seed, look, files[chunk.source], chunk.format, {}};
    work.result.source = chunk.source;
    work.result.bytes = chunk.bytes;
    for (const SourceRow& row : chunk.rows) work.run(row);
    return std::move(work.result);
  };
}

}  // namespace forge
