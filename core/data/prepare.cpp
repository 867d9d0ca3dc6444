#include "core/data/prepare.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "core/data/examples/chunk_worker.h"
#include "core/data/examples/lost_rows.h"
#include "core/data/read/expand.h"
#include "core/data/read/row_stream.h"
#include "core/data/report/report.h"
#include "core/data/token_cache.h"
#include "core/job/field.h"
#include "core/job/job_json.h"
#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// Increase this whenever the same inputs give different examples.
constexpr int64_t kPipelineVersion = 13;
// A cache up to this size is verified in full when found, which takes a second, and rebuilt if it
// is damaged. Larger ones are verified as they are read.
constexpr int64_t kVerifiedBytes = int64_t{256} << 20;

const std::vector<DataSource>& sources_of(const Job& job, Split split) {
  return split == Split::eval && !job.data.eval.empty() ? job.data.eval : job.data.train;
}

// Returns the share of the sources' rows that belongs to the split.
EvalShare share_of(const Job& job, Split split) {
  if (!job.data.eval.empty() || job.data.eval_fraction <= 0) return {};
  return {job.data.eval_fraction, split == Split::eval};
}

FileStamp stamp_of(const std::string& path) {
  std::error_code ignored;
  return {file_size(path), std::filesystem::last_write_time(path, ignored)};
}

// Hashes the files; those whose stamp has not changed since they were hashed are not hashed again.
void hash_files(const std::vector<std::string>& paths, FileHashes& known) {
  for (const std::string& path : paths) {
    source_kind(path);  // its errors are about data files
    const FileStamp stamp = stamp_of(path);
    HashedFile& file = known[path];
    if (file.hash.empty() || file.stamp != stamp) file = {hash_file(path, ErrorKind::data), stamp};
  }
}

// Throws Error(data) if a file has changed: rows must have the content that the cache is named by.
void require_unchanged(const std::vector<std::string>& paths, const FileHashes& hashes) {
  for (const std::string& path : paths)
    if (stamp_of(path) != hashes.at(path).stamp)
      throw Error(ErrorKind::data, path + ": changed while it was read")
          .hint("run again when nothing writes to it");
}

// Adds a source's settings, all of which but its path make examples; the seed only if a weight
// depends on it.
void add_settings(Hasher& hasher, const SourceFile& file, int64_t seed) {
  const DataSource& source = file.source;
  hasher.add(static_cast<int64_t>(file.entry));
  for (const Field& field : find_field("data.train")->fields)
    if (field.key != "path") hasher.add(dump_json(value_of(field, &source)));
  hasher.add(source.weight == std::floor(source.weight) ? int64_t{0} : seed);
}

// Returns the hash of everything that decides the examples, and of nothing else.
std::string cache_key(const Job& job, Split split, const std::vector<SourceFile>& files,
                      const Tokenizer& tokenizer, const ChatTemplate* chat_template, const ExampleModel& model,
                      const FileHashes& hashes) {
  Hasher hasher;
  hasher.add(kPipelineVersion).add(tokenizer.content_hash()).add(model.embedding_rows);
  if (model.reads_source()) hasher.add(model.decoder_start_id).add(model.most_positions);
  const std::vector<std::string> templates =
      chat_template ? chat_template->sources() : std::vector<std::string>{};
  hasher.add(static_cast<int64_t>(templates.size()));
  for (const std::string& text : templates) hasher.add(text);
  for (const SourceFile& file : files) {
    hasher.add(hashes.at(file.path).hash).add(static_cast<int64_t>(source_kind(file.path)));
    add_settings(hasher, file, job.seed);
  }
  const EvalShare share = share_of(job, split);
  hasher.add(format_number(share.fraction)).add(static_cast<int64_t>(share.eval));
  for (const std::string& key : keys_that_make_examples()) hasher.add(key).add(dump_json(value_of(job, key)));
  return hasher.hex();
}

std::vector<std::string> paths_of(const std::vector<SourceFile>& files) {
  std::vector<std::string> paths;
  for (const SourceFile& file : files) paths.push_back(file.path);
  return paths;
}

// Returns an intact cache file for the key, or nothing; the caller overwrites a damaged one.
std::optional<Prepared> cached(const std::string& path, const std::vector<std::string>& sources) {
  if (!file_exists(path)) return std::nullopt;
  try {
    Prepared prepared;
    prepared.data = DataSet::open(path, sources);
    if (file_size(path) <= kVerifiedBytes) prepared.data->verify();
    prepared.summary = prepared.data->summary();
    prepared.summary.cache_path = path;
    if (!prepared.summary.lost_rows_path.empty()) prepared.summary.lost_rows_path = lost_rows_path(path);
    prepared.lengths = prepared.data->atom_lengths();
    prepared.from_cache = true;
    return prepared;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns a fault of the split as a whole: located at the job's key, or at the file if there is no
// job.
KeyFault fault_of(Split split, const PrepareOptions& options, const std::string& message) {
  if (!options.source_name.empty()) return {"", message, options.source_name};
  return {split == Split::train ? "data.train" : "data.eval", message, ""};
}

void require_template(const RowStream& stream, Split split, const PrepareOptions& options) {
  const std::string key = options.source_name.empty() ? "data.template" : "--template";
  const std::vector<RowFormat> formats = stream.formats();
  for (RowFormat format : {RowFormat::messages, RowFormat::sharegpt})
    if (std::ranges::count(formats, format) > 0)
      throw KeyError(
          ErrorKind::job,
          {fault_of(split, options,
                    std::string("rows of ") + name_of(format) + ", but the model has no chat template")},
          "set " + key + " to a .jinja file or a bundled name");
}

void require_pairs(const RowStream& stream, Split split, const PrepareOptions& options) {
  for (RowFormat format : stream.formats())
    if (format != RowFormat::prompt_completion && format != RowFormat::alpaca && format != RowFormat::tokens)
      throw KeyError(ErrorKind::job,
                     {fault_of(split, options, std::string("rows of ") + name_of(format) + ", but the model is an encoder-decoder, which "
                                                                                           "trains on a source and an answer")},
                     "give rows of prompt and completion, input and target, document and summary, or question, context and answer; map others "
                     "with columns: {prompt: …, completion: …}");
}

// Runs chunks on threads and hands the results over in order. At most threads + 1 chunks are in
// memory.
template <class Consume>
void for_each_result(RowStream& stream, const ChunkWorker& worker, int64_t threads, Consume consume) {
  std::deque<std::future<ChunkResult>> running;
  auto consume_oldest = [&] {
    consume(running.front().get());
    running.pop_front();
  };
  for (RowChunk chunk; stream.next(chunk);) {
    if (static_cast<int64_t>(running.size()) > threads) consume_oldest();
    running.push_back(
        std::async(std::launch::async, [&worker, chunk = std::move(chunk)] { return worker(chunk); }));
  }
  while (!running.empty()) consume_oldest();
}

// Joins documents end to end and cuts them into rows of one length: data.join_documents.
class JoinedDocuments {
 public:
  explicit JoinedDocuments(int64_t length) : length_(static_cast<size_t>(length)) {}

  // Returns the rows that these documents fill, after those that came before. Each row has the line
  // of its first token.
  std::vector<LocatedExample> rows_of(const std::vector<LocatedExample>& documents) {
    std::vector<LocatedExample> rows;
    for (const LocatedExample& document : documents) {
      const auto& [id, ids, supervised] = document.example;
      for (size_t begin = 0; begin < ids.size();) {
        auto& [row_id, row_ids, row_supervised] = row_.example;
        if (row_ids.empty()) row_.line = document.line;
        const size_t count = std::min(ids.size() - begin, length_ - row_ids.size());
        row_ids.insert(row_ids.end(), &ids[begin], &ids[begin] + count);
        row_supervised.insert(row_supervised.end(), &supervised[begin], &supervised[begin] + count);
        // A document's first token is predicted from the end of the document before it; a row's
        // first token has nothing before it.
        if (begin == 0) row_supervised[row_ids.size() - count] = 1;
        row_supervised[0] = 0;
        begin += count;
        if (row_ids.size() == length_) rows.push_back(std::exchange(row_, {}));
      }
    }
    return rows;
  }

  // Returns the rest after the last document: a shorter row, or none if it is a single token, which
  // predicts nothing. transformers' run_clm.py drops the rest.
  std::vector<LocatedExample> rest() const {
    if (row_.example.ids.size() < 2) return {};
    return {row_};
  }

 private:
  size_t length_;
  LocatedExample row_;
};

// Adds counts, scaled: an estimate scales each source by its own share.
void add_scaled(DataSummary& total, const DataSummary& part, double factor) {
  auto scaled = [&](int64_t value) {
    return static_cast<int64_t>(static_cast<double>(value) * factor + 0.5);
  };
  for (auto count :
       {&DataSummary::rows, &DataSummary::examples, &DataSummary::tokens, &DataSummary::supervised_tokens,
        &DataSummary::truncated, &DataSummary::split, &DataSummary::dropped, &DataSummary::skipped,
        &DataSummary::untrained, &DataSummary::unsampled})
    total.*count += scaled(part.*count);
  for (const auto& [key, count] : kCutCounts) total.cuts.*count += scaled(part.cuts.*count);
  PairCounts pairs = part.pairs;
  for (const auto& [key, count] : kPairCounts) pairs.*count = scaled(part.pairs.*count);
  total.pairs += pairs;
  for (const auto& [key, rows] : part.unread_keys) total.unread_keys[key] += scaled(rows);
  for (const auto& [column, rows] : part.columns) total.columns[column] += scaled(rows);
  total.longest = std::max(total.longest, part.longest);
  total.sampled_rows += part.rows;
}

// True for the second example of a pair, which has no number of its own.
bool is_second(const LocatedExample& made, bool compares) { return compares && made.label == "rejected"; }

void count(DataSummary& summary, const ChunkResult& result, const ExampleMaker& maker) {
  add_scaled(summary, result.summary, 1);
  for (const auto& [key, unread] : result.unread) summary.unread_keys[key] += unread.rows;
  for (const LocatedExample& made : result.examples) {
    const auto length = static_cast<int64_t>(made.example.ids.size());
    summary.examples += !is_second(made, maker.compares());
    if (maker.judges()) ++(judgement_of(made.label).desirable ? summary.pairs.desirable : summary.pairs.undesirable);
    summary.tokens += length;
    summary.longest = std::max(summary.longest, length);
    for (uint8_t supervised : made.example.supervised) summary.supervised_tokens += is_trained(supervised);
  }
}

void require_examples(const Job& job, Split split, const PrepareOptions& options,
                      const DataSummary& summary, const LostRows& lost) {
  if (summary.examples > 0) return;
  if (split == Split::eval && job.data.eval.empty() && summary.rows == 0)
    throw KeyError(
        ErrorKind::data, "data.eval_fraction",
        format_number(job.data.eval_fraction) + " chose no row of data.train, expected at least one",
        "raise data.eval_fraction, or name files in data.eval");
  const std::string message = summary.rows == 0
                                  ? "skip, weight or data.eval_fraction leave no row, expected at least one"
                                  : "no example is left of " + format_count(summary.rows) + " rows (" +
                                        format_count(summary.skipped) + " with faults, " +
                                        format_count(summary.untrained) + " untrained, " +
                                        format_count(summary.dropped) + " too long), expected at least one";
  std::vector<KeyFault> faults = lost.faults();
  const std::string hint = faults.empty() ? "" : "mend the rows: data.on_bad_row: skip leaves out all of them";
  faults.insert(faults.begin(), fault_of(split, options, message));
  throw KeyError(ErrorKind::data, std::move(faults), hint);
}

}  // namespace

void require_trainable(const DataSummary& summary, ObjectiveType type, const std::string& key) {
  const Objective& objective = objective_of(type);
  const auto refused = std::ranges::find_if_not(
      summary.formats, [&](RowFormat format) { return trains_on(objective, format); });
  if (refused == summary.formats.end()) return;
  const RowFormat format = *refused;
  const std::string &name = name_of(type), &advice = summary.advice;
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw KeyError(ErrorKind::job, key, name_of(format) + " rows, which " + what, hint);
  };
  if (objective.coupling == Coupling::answer)
    refuse("do not say which answers are good, as " + name + " requires",
           !advice.empty()
               ? advice
               : "give rows of prompt, completion and label (format: kto), or of chosen and rejected answers");
  // For other formats than prompts the advice is about labels of single answers.
  if (objective.coupling == Coupling::pair)
    refuse("do not hold two answers to compare, as " + name + " requires",
           !advice.empty() && format == RowFormat::prompt
               ? advice
               : "give rows of prompt, chosen and rejected (format: preference), or write objective: " +
                     std::string(format == RowFormat::prompt ? "grpo"
                                 : format == RowFormat::kto  ? "kto"
                                                             : "sft"));
  if (objective.coupling == Coupling::policy)
    refuse("contain an answer, and " + name + " draws its own",
           "give rows of prompt and what rewards need (format: prompt; columns: {prompt: question})");
  const std::string learner = format == RowFormat::preference ? "objective: dpo to learn what is preferred"
                              : format == RowFormat::kto      ? "objective: kto to learn from good and bad answers"
                              : format == RowFormat::prompt   ? "objective: grpo to learn from rewarded answers of its own"
                                                              : "";
  refuse(learner.empty() ? "no objective of this version trains on" : name + " does not train on",
         !advice.empty() ? advice
                         : (learner.empty() ? "`forge data` shows them" : "write " + learner) +
                               "; for " + name +
                               ", map the answers: columns: {instruction: …, output: …}, or "
                               "{prompt: …, completion: …} with format: prompt_completion");
}

bool has_eval_data(const Job& job) { return !job.data.eval.empty() || job.data.eval_fraction > 0; }

Prepared prepare_dataset(const Job& job, Split split, const Tokenizer& tokenizer,
                         const ChatTemplate* chat_template, const PrepareOptions& options) {
  if (options.model.reads_source()) chat_template = nullptr;
  const std::vector<SourceFile> sources = expand_sources(sources_of(job, split));
  const std::vector<std::string> paths = paths_of(sources);
  FileHashes own_hashes;
  FileHashes& hashes = options.file_hashes ? *options.file_hashes : own_hashes;
  hash_files(paths, hashes);
  const std::string path =
      options.cache_folder + "/" +
      cache_key(job, split, sources, tokenizer, chat_template, options.model, hashes) + ".tokens";
  std::optional<Prepared> found = cached(path, paths);
  if (found && !(options.report && options.read_cached)) return std::move(*found);

  const auto shown = [&](const std::string& name) { return options.shown ? options.shown(name) : name; };
  RowStream stream(sources, options.estimate_bytes, options.model.reads_source());
  const bool estimate = stream.partial();
  if (options.model.reads_source()) require_pairs(stream, split, options);
  if (!chat_template) require_template(stream, split, options);
  const ExampleMaker maker(tokenizer, chat_template, job, options.model);
  const ChunkWorker worker =
      chunk_worker(maker, stream.files(), share_of(job, split), job.seed, options.report != nullptr);
  LostRows lost(job.data.on_bad_row, estimate ? "" : path);
  std::optional<TokenCacheWriter> writer;
  if (!estimate && !found) writer.emplace(path);

  Prepared prepared;
  std::vector<DataSummary> by_source(sources.size());
  std::vector<int64_t> bytes_read(sources.size());
  PrepareProgress progress{.total_bytes = stream.total_bytes()};
  const int64_t threads = options.threads > 0 ? options.threads : std::thread::hardware_concurrency();
  const auto take = [&](ChunkResult result) {
    DataSummary& summary = by_source[result.source];
    count(summary, result, maker);
    bytes_read[result.source] += result.bytes;
    lost.add(result, shown(paths[result.source]));
    if (options.report) options.report->add(result, paths[result.source], split == Split::eval);
    for (const LocatedExample& made : result.examples) {
      const auto& [ids, supervised] = std::tie(made.example.ids, made.example.supervised);
      if (is_second(made, maker.compares()))
        prepared.lengths.back() += static_cast<int64_t>(ids.size());
      else
        prepared.lengths.push_back(static_cast<int64_t>(ids.size()));
      if (writer) writer->add(ids, supervised, static_cast<int64_t>(result.source), made.line, made.label);
      progress.tokens += static_cast<int64_t>(ids.size());
    }
    progress.bytes += result.bytes;
    progress.rows += result.summary.rows;
    progress.examples += static_cast<int64_t>(result.examples.size());
    if (options.progress) options.progress(progress);
  };
  JoinedDocuments joined(job.data.max_length);
  for_each_result(stream, worker, threads, [&](ChunkResult result) {
    if (job.data.join_documents) result.examples = joined.rows_of(result.examples);
    take(std::move(result));
  });
  if (job.data.join_documents) take({.source = sources.size() - 1, .examples = joined.rest()});
  progress.bytes =
      estimate ? progress.bytes : progress.total_bytes;  // blank lines are not counted as rows
  if (options.progress) options.progress(progress);
  require_unchanged(paths, hashes);
  lost.throw_if_any(progress.rows, options.source_name.empty()
                                       ? "fix them, or set data.on_bad_row: skip to leave them out"
                                       : "fix them, or leave them out of the file");

  DataSummary& summary = prepared.summary;
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool whole = !estimate || sources[i].source.limit || bytes_read[i] == 0;
    const double factor =
        whole ? 1.0 : static_cast<double>(stream.source_bytes(i)) / static_cast<double>(bytes_read[i]);
    add_scaled(summary, by_source[i], factor);
  }
  summary.formats = stream.formats();
  summary.format = stream.formats_text();
  summary.advice = stream.advice();
  const bool instructs = std::ranges::count(summary.formats, RowFormat::alpaca) > 0;
  if (!chat_template && !options.model.reads_source() && instructs)
    summary.format +=
        "; instructions use Stanford Alpaca's prompt, since the model has no chat template";
  require_examples(job, split, options, summary, lost);
  if (estimate) {
    summary.estimated = true;
    return prepared;
  }
  if (found) return std::move(*found);
  summary.cache_path = path;
  summary.content_hash = writer->content_hash();
  summary.lost_rows_path = lost.finish();
  std::vector<std::string> whole_paths;  // the cache may be read from any folder
  for (const std::string& source : paths) whole_paths.push_back(shown(std::filesystem::absolute(source).string()));
  writer->finish({{"sources", whole_paths}, {"summary", to_json(summary)}, {"pairs", maker.compares()}});
  prepared.data = DataSet::open(path, paths);
  return prepared;
}

}  // namespace forge
