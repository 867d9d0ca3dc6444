#include "core/data/render.h"

#include "core/base/error.h"

namespace forge {

RenderedRow render_pair(const PairRow& row, const ObjectiveConfig& objective) {
  RenderedRow rendered;
  rendered.text = row.prompt + row.completion;
  const auto prompt = static_cast<int64_t>(row.prompt.size()),
             size = static_cast<int64_t>(rendered.text.size());
  rendered.runs = {{size, false}};
  rendered.trained = {{objective.train_on == TrainOn::all ? 0 : prompt, size}};
  rendered.document = true;
  return rendered;
}

RenderedRow render_text(const TextRow& row) {
  const auto size = static_cast<int64_t>(row.text.size());
  return {row.text, {{size, false}}, {{0, size}}, true};
}

}  // namespace forge
