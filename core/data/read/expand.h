#pragma once
// Expands a job's sources into files: a file is itself, a folder gives its data files, a pattern
// gives its matches.
//
//   for (const SourceFile& file : expand_sources(job.data.train)) open_source(file.path) …
//
// Order: sources as the job lists them, the files of one by their paths, byte by byte, whatever the
// file system says. A folder gives its .jsonl, .ndjson, .json, .csv, .tsv, .txt and .parquet files
// (also .gz, .zst), not those of folders below and not hidden ones. They must be of one kind: a
// LICENSE.txt beside the data is not trained on unseen. Paths below the working directory are given
// relative to it. In a pattern `*`, `?` and `[abc]` match within a name and `**` any folders; a
// path that exists is never a pattern. Throws Error(data) if there is no such file.
#include <string>
#include <vector>

#include "core/job/job.h"

namespace forge {

struct SourceFile {
  std::string path;
  DataSource source;  // as the job says; its `path` may be the folder or the pattern
  size_t entry = 0;   // which source: limit and skip count over all files of one
};

std::vector<SourceFile> expand_sources(const std::vector<DataSource>& sources);

}  // namespace forge
