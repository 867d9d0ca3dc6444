#pragma once
// Makes a DataSet of data files: read, convert, render, tokenise, cut, cache.
//
//   PrepareOptions options{.cache_folder = job.output_dir + "/.cache/tokens"};
//   Prepared train = prepare_dataset(job, Split::train, tokenizer, &chat_template, options);
//   train.summary.tokens, train.data->example(0)
//
// The cache file is named by a hash of what decides its content: the data files' contents, the
// tokenizer, the chat template and the settings that matter; never of times or paths. An intact
// file of that name is used; a damaged one is written anew. Rows are converted and tokenised on
// `threads` threads; the result does not depend on their number. Memory: a few MB of rows for each
// thread, and 32 bytes an example.
//
// Accounting: rows = skipped + untrained + dropped + rows of which examples were made. Rows that
// are not kept are listed in a file beside the cache. With data.on_bad_row: error (the default) a
// row with a fault, or without a single supervised token, stops everything: all data is read first,
// and one Error(data) names up to 20 such rows ("file:line:col: what, expected what", one a line)
// and counts the rest.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/examples/example_model.h"
#include "core/job/job.h"
#include "core/lib/text/chat_template.h"
#include "core/lib/text/tokenizer.h"

namespace forge {

enum class Split { train, eval };

struct PrepareProgress {
  int64_t bytes = 0, total_bytes = 0;  // of the data files
  int64_t rows = 0, examples = 0, tokens = 0;
};

class DataReport;

// The size and time of a file, to notice that it is changed meanwhile.
struct FileStamp {
  int64_t bytes = 0;
  std::filesystem::file_time_type changed;
  bool operator==(const FileStamp&) const = default;
};
struct HashedFile {
  std::string hash;
  FileStamp stamp;  // before it was hashed
};
using FileHashes = std::map<std::string, HashedFile>;  // data files, by path

struct PrepareOptions {
  std::string cache_folder;
  // Returns a data file's name as files of the cache may contain it, which others may read: without
  // secrets in its path.
  std::function<std::string(const std::string& path)> shown;
  int64_t threads = 0;  // 0: one for each processor
  // Tokenises at most this many bytes of the data, and scales: for a plan. Smaller data are
  // prepared as usual.
  std::optional<int64_t> estimate_bytes;
  std::function<void(const PrepareProgress&)> progress;  // called on the caller's thread
  // Looks at every row that is read; with read_cached they are read even if the cache is there.
  DataReport* report = nullptr;
  bool read_cached = false;
  // Name of the data in messages if no job names it ("--data FILE"); hints then name options, not
  // keys.
  std::string source_name;
  ExampleModel model;
  // Hashes that are known already; new ones are added: a file that gives both splits is hashed
  // once.
  FileHashes* file_hashes = nullptr;
};
constexpr int64_t kEstimateBytes = int64_t{32} << 20;

struct Prepared {
  DataSummary summary;
  std::optional<DataSet> data;   // nothing when estimated
  std::vector<int64_t> lengths;  // tokens of each atom (dataset.h); when estimated, of the sampled ones
  bool from_cache = false;
};

// Throws Error(job) when the objective does not train on rows of such formats: `forge data` shows
// them, and neither plan nor evaluation may take answers to judge for text to learn. `key` says
// whose rows they are: data.train, or an option.
void require_trainable(const DataSummary& summary, ObjectiveType type, const std::string& key);

// True if the job has evaluation data.
bool has_eval_data(const Job& job);

// Prepares one split. An encoder-decoder has no chat template, and no rows but those of two texts:
// others are an Error(job). `chat_template` may be null: then rows of messages are an Error(job),
// and alpaca rows use Alpaca's own prompt. data.eval_fraction: a row belongs to eval when the hash
// of its content (content_of in rows.h) is below the fraction, so adding rows never moves one, and
// equal rows stay together. After that, weights repeat or leave out rows of the training split
// only.
Prepared prepare_dataset(const Job& job, Split split, const Tokenizer& tokenizer,
                         const ChatTemplate* chat_template, const PrepareOptions& options);

}  // namespace forge
