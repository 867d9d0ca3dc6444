#include "core/data/show.h"

#include <span>

#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"

namespace forge {

void dump_dataset(const DataSet& data, const Tokenizer& tokenizer, OutputFile& out) {
  for (int64_t i = 0; i < data.size(); ++i) {
    const Example example = data.example(i);
    Json line{{"source", data.source_path(i)}, {"line", data.source_line(i)}};
    if (const std::string label = data.label(i); !label.empty()) line["label"] = label;
    line["text"] = tokenizer.decode(example.ids);
    line["ids"] = example.ids;
    line["mask"] = example.supervised;
    out.write(dump_json(line) + "\n");
  }
}

std::string title_of(const DataSet& data, int64_t index) {
  const std::string label = data.label(index);
  return data.source_path(index) + ":" + std::to_string(data.source_line(index)) +
         (label.empty() ? "" : " (" + label + ")") + ": " + format_count(data.length(index)) + " tokens, " +
         format_count(data.supervised(index)) + " trained";
}

std::string show_example(const DataSet& data, int64_t index, const Tokenizer& tokenizer, bool colour) {
  const Example example = data.example(index);
  std::string out = printable(title_of(data, index)) + "\n";
  // Runs of equal mask are decoded whole: a character split into several tokens never spans two
  // runs.
  for (size_t begin = 0, end = 0; begin < example.ids.size(); begin = end) {
    const uint8_t mask = example.supervised[begin];
    const bool trained = is_trained(mask);
    for (end = begin; end < example.ids.size() && example.supervised[end] == mask;) ++end;
    const std::string text = printable(tokenizer.decode(std::span(example.ids).subspan(begin, end - begin)));
    if (colour)
      out += (trained ? "\x1b[32m" : "\x1b[2m") + text + "\x1b[0m";  // green, dim, reset
    else
      out += trained ? "⟦" + text + "⟧" : text;
  }
  return out + "\n";
}

}  // namespace forge
