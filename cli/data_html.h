#pragma once
// `forge data --html`: the report and examples, token by token, as one file without network or
// script.
#include <string>

#include "core/data/dataset.h"
#include "core/data/report/report.h"
#include "core/job/secrets.h"
#include "core/lib/text/tokenizer.h"

namespace forge {

struct DataPage {
  std::string title;
  const DataReport* report = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const DataSet* data = nullptr;  // null if bad rows stopped the preparation
  int64_t examples = 20;          // shown
  std::vector<Secret> secrets;    // an example that contains one is shown as text, with *** in its place
};

// Returns the page. Everything that came with the data is escaped, and a policy in the page also
// forbids scripts and connections.
std::string data_html(const DataPage& page);

}  // namespace forge
