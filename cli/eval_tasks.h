#pragma once
// forge eval --task: measures of a model besides the loss of rows.
//
//   answers    greedy answers (or drawn, with a temperature) beside references: exact_match, f1, rouge_l
//   choices    the likeliest of each row's choices: accuracy by the sum of its tokens' log-probabilities, and by the same
//              divided by tokens and by characters, since longer choices are less likely
//   long-text  perplexity of texts of any length, in windows that overlap
#include <string>

#include "cli/model_choice.h"

namespace forge {

inline constexpr Option kTaskOptions[] = {
    {"--task", "NAME",
     "loss (default), answers (against references), choices (picks the most likely) or long-text "
     "(in windows)"},
    {"--window", "N", "long-text: tokens per window (default: the model's training length)"},
    {"--stride", "N", "long-text: tokens from one window to the next (default: half a window)"},
};

// The summary of the task, printed or as JSON; `per_example` gets a line for each row.
struct TaskResult {
  Json summary;
  std::string text;         // for people
  std::string per_example;  // JSON lines
};

// Throws Error(usage) for a name that is no task, and for options of another task.
void check_task_options(const std::string& task, const Arguments& args);

// Runs any task but loss. Throws Error(data) for rows that it does not read.
TaskResult run_task(const std::string& task, const Arguments& args, const ModelChoice& choice,
                    Progress& progress);

}  // namespace forge
