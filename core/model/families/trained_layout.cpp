#include "core/model/families/trained_layout.h"

#include <algorithm>
#include <map>

namespace forge {
namespace {

constexpr int64_t kLineElements = 16;         // 64 bytes of fp32
constexpr int64_t kStateBlockElements = 256;  // elements that share the scale of their 8-bit state
constexpr int64_t kFewestCoded = 4096;        // bitsandbytes' min_8bit_size

using Of = StatePart::Of;

std::vector<StatePart> parts_of(const OptimizerConfig& optimizer) {
  switch (optimizer.type) {
    case OptimizerType::adamw:
      return {{"exp_avg"}, {"exp_avg_sq"}};
    case OptimizerType::adamw_8bit:
      return {{"exp_avg"},
              {"exp_avg_sq"},
              {"exp_avg_8bit", StateKind::coded, Of::element, true},
              {"exp_avg_sq_8bit", StateKind::coded, Of::element, true},
              {"exp_avg_absmax", StateKind::coded, Of::element, false, kStateBlockElements},
              {"exp_avg_sq_absmax", StateKind::coded, Of::element, false, kStateBlockElements}};
    case OptimizerType::lion:
      return {{"exp_avg"}};
    case OptimizerType::adafactor:
      return {{"exp_avg_sq"},
              {"exp_avg_sq_row", StateKind::matrix, Of::row},
              {"exp_avg_sq_col", StateKind::matrix, Of::column}};
    case OptimizerType::muon:
      return {{"exp_avg"}, {"exp_avg_sq"}, {"momentum", StateKind::matrix}};
    case OptimizerType::schedule_free:
      return {{"z"}, {"exp_avg_sq"}};
    case OptimizerType::sgd:
      break;
  }
  return optimizer.momentum.value_or(0) > 0 ? std::vector<StatePart>{{"momentum"}} : std::vector<StatePart>{};
}

StateKind kind_of(const Parameter& parameter, OptimizerType type) {
  const bool coded = type == OptimizerType::adamw_8bit && parameter.role != Role::embedding &&
                     parameter.count() >= kFewestCoded;
  const bool hidden = parameter.layer >= 0 && (parameter.role == Role::linear || parameter.role == Role::lora_a || parameter.role == Role::lora_b);
  const bool whole = type == OptimizerType::adafactor || (type == OptimizerType::muon && hidden);
  return coded                                  ? StateKind::coded
         : whole && parameter.shape.size() >= 2 ? StateKind::matrix
                                                : StateKind::plain;
}

// Returns the bytes of an update's workspace. muon: a product of the matrix's size and two squares
// of its shorter side. adafactor: three times the matrix's rows and columns.
int64_t working_bytes_of(const TrainedLayout& layout, OptimizerType type) {
  int64_t values = 0;
  for (const TrainedSlice& slice : layout.slices) {
    if (slice.state != StateKind::matrix) continue;
    const int64_t shorter = std::min(slice.rows(), slice.columns());
    values = std::max(values, type == OptimizerType::muon ? slice.parameter.count() + 2 * shorter * shorter
                                                          : 3 * (slice.rows() + slice.columns()));
  }
  if (type == OptimizerType::schedule_free) values = std::min(layout.elements, kUpdateChunk);
  return values * 4;
}

int64_t up_to(int64_t multiple, int64_t count) { return (count + multiple - 1) / multiple * multiple; }

}  // namespace

int64_t StatePart::begin(const TrainedSlice& slice) const {
  if (of == Of::row) return slice.row_offset;
  return of == Of::column ? slice.column_offset : slice.state_offset / block;
}

int64_t StatePart::count(const TrainedSlice& slice) const {
  if (of == Of::row) return slice.rows();
  return of == Of::column ? slice.columns() : (slice.parameter.count() + block - 1) / block;
}

int64_t TrainedLayout::state_bytes() const {
  int64_t bytes = 0;
  for (const StatePart& part : state) bytes += part.bytes();
  return bytes;
}

int64_t TrainedLayout::update_bytes(int64_t copy_bytes) const {
  return elements * (4 + 4 + 4 + copy_bytes) + 2 * state_bytes();
}

TrainedLayout trained_layout(const std::vector<Parameter>& parameters, const OptimizerConfig& optimizer) {
  // A block of 8-bit state belongs to one tensor.
  const int64_t line = optimizer.type == OptimizerType::adamw_8bit ? kStateBlockElements : kLineElements;
  TrainedLayout layout;
  std::map<StateKind, int64_t> elements;
  int64_t rows = 0, columns = 0;
  for (const Parameter& parameter : parameters) {
    if (!parameter.trainable) continue;
    TrainedSlice slice{parameter, layout.elements,
                       up_to(line, parameter.count()) * parameter.copies,
                       kind_of(parameter, optimizer.type)};
    int64_t& state = elements[slice.state];
    slice.state_offset = state;
    state += slice.padded;
    if (slice.state == StateKind::matrix) {
      slice.row_offset = rows, slice.column_offset = columns;
      rows += up_to(kLineElements, slice.rows()) * parameter.copies,
          columns += up_to(kLineElements, slice.columns()) * parameter.copies;
    }
    layout.elements += slice.padded;
    layout.slices.push_back(std::move(slice));
  }
  layout.state = parts_of(optimizer);
  for (StatePart& part : layout.state)
    part.values = part.of == Of::row ? rows : part.of == Of::column ? columns : elements[part.kind] / part.block;
  std::erase_if(layout.state, [](const StatePart& part) { return part.values == 0; });
  layout.averages = optimizer.type == OptimizerType::schedule_free;
  layout.working_bytes = working_bytes_of(layout, optimizer.type);
  return layout;
}

std::vector<double> default_betas(OptimizerType type) {
  return type == OptimizerType::lion ? std::vector<double>{0.9, 0.99} : std::vector<double>{0.9, 0.999};
}

double default_momentum(OptimizerType type) { return type == OptimizerType::muon ? 0.95 : 0; }

bool has_update_kernel(OptimizerType type) {
  return type == OptimizerType::adamw || type == OptimizerType::adamw_8bit || type == OptimizerType::lion;
}

}  // namespace forge
