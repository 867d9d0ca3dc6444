// Keys of the section data.
#include "core/job/field_builder.h"
#include "core/job/fields.h"

namespace forge {
namespace {

std::vector<Field> source_fields() {
  return {
      key("path", &DataSource::path,
          "A data file (.jsonl, .json, .csv, .tsv, .txt, .md or .parquet; text files also as .gz or .zst), a "
          "folder of them, or a glob pattern such as data/*.jsonl.")
          .required()
          .path(),
      key("repo", &DataSource::repo,
          "Dataset on the Hugging Face hub (org/name), read from the cache on this machine. forge "
          "fetch JOB downloads it. path then names a file or a glob pattern in it.")
          .when_unset("path is a local path"),
      key("revision", &DataSource::revision, "Branch, tag or commit of repo.").when_unset("main"),
      key("format", &DataSource::format,
          "Format of the rows. auto detects it from the first rows, and the plan shows the result. "
          "dpo, simpo, orpo, cpo and reward train on preference rows. kto trains on kto rows, or "
          "on both answers of preference rows. grpo and ppo train on prompt rows, sft and pretrain "
          "on the rest. reward rows (an answer with its score) can be inspected with forge data, "
          "but no objective trains on them yet."),
      key("limit", &DataSource::limit, "Use only this many rows, after those skipped.")
          .at_least(1, "rows")
          .when_unset("all rows"),
      key("skip", &DataSource::skip, "Skip this many rows at the beginning.")
          .at_least(0, "rows"),
      key("weight", &DataSource::weight,
          "Number of times each row is used per epoch. With 2.5, every row is used twice and half "
          "of the rows once more, chosen by the hash of the row and the seed.")
          .above(0)
          .range(0, 1000),
      key("columns", &DataSource::columns,
          "Columns that hold forge's fields: {instruction: question, output: answer.text}. from, "
          "value, role and content rename the keys of each turn.")
          .when_unset("the columns have forge's names"),
      key("roles", &DataSource::roles,
          "Maps the role names of the data: {Customer: user, Agent: assistant}. Known roles are system, "
          "user, assistant, tool and tool_call.")
          .when_unset("the usual names are recognized"),
      key("prompt", &DataSource::prompt,
          "Template for the prompt, with fields of the row in braces: \"Q: {question}\\nA:\". "
          "Double a brace to write it literally.")
          .when_unset("the row's own prompt"),
      key("completion", &DataSource::completion, "Template for the completion. Used together with prompt.")
          .when_unset("the row's own completion"),
      key("ignore", &DataSource::ignore,
          "Keys of rows and turns to ignore, such as a context, a score or images.")
          .when_unset("keys that would change the training are refused, others are reported"),
      key("sample_by", &DataSource::sample_by,
          "Unit of a text file that becomes one row: the whole document, a paragraph (separated by "
          "blank lines) or a line."),
  };
}

}  // namespace

std::vector<Field> data_fields() {
  return {
      sections(
          "train", &DataConfig::train,
          "Training data: a file, folder or glob pattern, a list of them, or a list of {path, format, …}.",
          source_fields())
          .required()
          .shorthand("path"),
      sections("eval", &DataConfig::eval, "Evaluation data, in the same forms.", source_fields())
          .shorthand("path")
          .role(KeyRole::free),
      key("eval_fraction", &DataConfig::eval_fraction,
          "Fraction of the training rows to hold out for evaluation, chosen by the hash of each row.")
          .at_least(0)
          .below(1)
          .makes_examples(),
      key("template", &DataConfig::template_name,
          "Chat template: the model's own (auto), a .jinja file, or the name of a bundled template.")
          .words({"auto"}),
      key("template_variables", &DataConfig::template_variables,
          "Variables for the chat template, such as {enable_thinking: false}. They are stored with "
          "the template in the result."),
      key("prompt_as", &DataConfig::prompt_as,
          "Use of a prompt that is plain text (prompt_completion, preference, kto, reward and "
          "prompt rows). With text, the model continues it. With user, it becomes a user turn in "
          "the chat template, and the completion becomes the assistant's turn.")
          .makes_examples(),
      key("max_length", &DataConfig::max_length, "Maximum length of an example.")
          .range(1, 1 << 24, "tokens")
          .makes_examples(),
      key("overlong", &DataConfig::overlong,
          "Treatment of examples longer than max_length: truncate cuts them, drop leaves them out, "
          "split makes several examples, and error treats them as bad rows (on_bad_row). "
          "Everything that is cut is counted and reported.")
          .makes_examples(),
      key("truncation_side", &DataConfig::truncation_side,
          "Side from which overlong: truncate removes tokens.")
          .makes_examples(),
      key("max_prompt_length", &DataConfig::max_prompt_length,
          "Maximum length of the prompt, which is everything before the first trained token. "
          "overlong: truncate cuts the beginning of longer prompts.")
          .range(1, 1 << 24, "tokens")
          .when_unset("no separate limit")
          .makes_examples(),
      key("max_completion_length", &DataConfig::max_completion_length,
          "Maximum length of the completion, which starts at the first trained token. overlong: "
          "truncate cuts the end of longer completions.")
          .range(1, 1 << 24, "tokens")
          .when_unset("no separate limit")
          .makes_examples(),
      key("packing", &DataConfig::packing,
          "Pack several examples into one row without attention between them. Affects speed, not "
          "the result.")
          .role(KeyRole::execution),
      key("separator", &DataConfig::separator,
          "Text between the documents of one row, such as <|endoftext|>. Each document is an example of its own, which ends with the "
          "tokenizer's end of text.")
          .when_unset("a row of text is one document")
          .makes_examples(),
      key("join_documents", &DataConfig::join_documents,
          "Concatenate the texts of pretrain and cut them into rows of max_length tokens, with "
          "attention across texts. If false, texts share rows without attending to each other, and "
          "overlong applies to long ones.")
          .makes_examples(),
      key("group_by_length", &DataConfig::group_by_length, "Batch examples of similar length together.")
          .role(KeyRole::identity),
      key("shuffle", &DataConfig::shuffle, "Shuffle the examples in every epoch, using the seed.")
          .role(KeyRole::identity),
      key("on_bad_row", &DataConfig::on_bad_row,
          "Treatment of rows that cannot be used: stop with an error, or skip them. Skipped rows "
          "are counted and listed.")
          .makes_examples(),
  };
}

}  // namespace forge
