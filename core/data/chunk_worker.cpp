#include "core/data/chunk_worker.h"

#include "core/base/hash.h"
#include "core/base/text.h"

namespace forge {
namespace {

// "file:3:14: what" → "3:14" and "what". Errors of parse_row begin with the path.
LostRow located(const std::string& path, const Error& error, int64_t line) {
  const std::string text = error.what();
  LostRow lost{line, std::to_string(line) + ":1", text, true};
  if (!starts_with(text, path + ":")) return lost;
  const std::string rest = text.substr(path.size() + 1);
  const size_t cut = rest.find(": ");
  if (cut == std::string::npos) return lost;
  lost.place = rest.substr(0, cut);
  lost.reason = rest.substr(cut + 2);
  return lost;
}

}  // namespace

ChunkWorker::ChunkWorker(const ExampleMaker& maker, std::vector<std::string> paths, EvalShare share,
                         bool look)
    : maker_(maker), paths_(std::move(paths)), share_(share), look_(look) {}

// The content decides, not the bytes: blanks and the kind of file do not matter. 60 bits of the hash as a
// fraction.
bool ChunkWorker::belongs(const Json& row) const {
  if (share_.fraction <= 0) return true;
  const uint64_t bits = std::stoull(hash_hex(dump_json(row)).substr(0, 15), nullptr, 16);
  return (static_cast<double>(bits) * 0x1p-60 < share_.fraction) == share_.eval;
}

ChunkResult ChunkWorker::run(const RowChunk& chunk) const {
  ChunkResult result;
  result.source = chunk.source;
  result.bytes = chunk.bytes;
  for (const SourceRow& row : chunk.rows) run_row(row, chunk, result);
  return result;
}

void ChunkWorker::run_row(const SourceRow& source, const RowChunk& chunk, ChunkResult& result) const {
  const std::string& path = paths_[chunk.source];
  Json json;
  try {
    json = chunk.plain_text ? Json{{"text", source.text}} : parse_row(source, path);
  } catch (const Error& error) {
    if (share_.eval) return;  // without content it belongs to train, which reports it
    ++result.rows;
    ++result.skipped;
    result.lost.push_back(located(path, error, source.line));
    return;
  }
  if (!belongs(json)) return;
  ++result.rows;
  RowFaults faults;
  const auto row = convert_row(json, chunk.format, {maker_.has_template(), maker_.vocab_size()}, faults);
  if (row) {
    RoleTokens roles;
    RowExamples made = maker_.make(*row, look_ ? &roles : nullptr);
    if (look_) result.looks.push_back(look_at(source, *row, made, roles));
    return add(source, std::move(made), result);
  }
  ++result.skipped;
  for (const RowFault& fault : faults)
    result.lost.push_back(
        {source.line, place_of(source, fault.pointer), fault.message, true, &fault == &faults[0]});
}

void ChunkWorker::add(const SourceRow& source, RowExamples made, ChunkResult& result) const {
  result.truncated += made.truncated;
  result.split += made.split;
  result.dropped += made.dropped;
  result.untrained += made.untrained;
  result.cuts += made.cuts;
  result.skipped += !made.problem.empty() && !made.untrained && !made.dropped;
  const std::string place = std::to_string(source.line) + ":" + std::to_string(source.column);
  if (!made.problem.empty()) result.lost.push_back({source.line, place, made.problem, !made.dropped});
  for (Example& example : made.examples) result.examples.push_back({std::move(example), source.line});
}

}  // namespace forge
