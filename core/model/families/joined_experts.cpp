#include "core/model/families/joined_experts.h"

#include <algorithm>
#include <vector>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/wrapped_file.h"
#include "core/model/families/modules.h"

namespace forge {
namespace {

constexpr std::string_view kGateUp = ".experts.gate_up_proj", kDown = ".experts.down_proj";

bool joined(const std::string& name) { return ends_with(name, kGateUp) || ends_with(name, kDown); }

// A matrix of one expert: rows [first_row, …) of matrix `expert` of tensor `tensor`. Other tensors
// are shown as they are.
struct Piece {
  size_t tensor = 0;
  int64_t expert = -1, first_row = 0;
};

class ExpertsApart : public WrappedFile {
 public:
  ExpertsApart(const ModelSpec& spec, std::unique_ptr<TensorFile> file)
      : WrappedFile(std::move(file)), spec_(spec) {
    for (size_t i = 0; i < file_->tensors().size(); ++i) {
      const TensorInfo& tensor = file_->tensors()[i];
      if (!joined(tensor.name)) {
        tensors_.push_back(tensor), pieces_.push_back({i});
        continue;
      }
      const std::string experts = tensor.name.substr(0, tensor.name.rfind('.') + 1);
      if (ends_with(tensor.name, kGateUp))
        add(i, experts, {"gate_proj", "up_proj"}, spec.expert_size, spec.hidden_size);
      else
        add(i, experts, {"down_proj"}, spec.hidden_size, spec.expert_size);
    }
  }

  std::string_view bytes(size_t index) const override {
    const std::string_view all = file_->bytes(source(index));
    if (!makes(index)) return all;
    const Piece& piece = pieces_[index];
    const TensorInfo& whole = file_->tensors()[piece.tensor];
    const size_t row = all.size() / static_cast<size_t>(whole.shape[0] * whole.shape[1]);
    return all.substr(static_cast<size_t>(piece.expert * whole.shape[1] + piece.first_row) * row,
                      static_cast<size_t>(tensors_[index].shape[0]) * row);
  }
  bool bytes_are_values(size_t index) const override {
    return file_->bytes_are_values(source(index));
  }

 protected:
  bool makes(size_t index) const override { return pieces_[index].expert >= 0; }
  size_t source(size_t index) const override { return pieces_[index].tensor; }
  void make_rows(size_t index, int64_t begin, int64_t count, float* values) const override {
    const Piece& piece = pieces_[index];
    const TensorInfo& whole = file_->tensors()[piece.tensor];
    std::vector<float> expert(static_cast<size_t>(whole.shape[1] * whole.shape[2]));
    file_->read_rows_f32(piece.tensor, piece.expert, 1, expert.data());
    std::copy_n(expert.data() + (piece.first_row + begin) * whole.shape[2], count * whole.shape[2],
                values);
  }

 private:
  void add(size_t at, const std::string& experts, const std::vector<const char*>& parts,
           int64_t rows, int64_t columns) {
    const TensorInfo& whole = file_->tensors()[at];
    const std::vector<int64_t> expected{spec_.num_experts,
                                        static_cast<int64_t>(parts.size()) * rows, columns};
    if (whole.shape != expected)
      throw Error(ErrorKind::environment, whole.name + ": has the shape " +
                                              format_shape(whole.shape) + ", config.json says " +
                                              format_shape(expected))
          .hint("the weights and config.json are of different models");
    for (int64_t expert = 0; expert < spec_.num_experts; ++expert)
      for (size_t part = 0; part < parts.size(); ++part) {
        tensors_.push_back({experts + std::to_string(expert) + "." + parts[part] + ".weight",
                            {rows, columns},
                            whole.dtype});
        pieces_.push_back({at, expert, static_cast<int64_t>(part) * rows});
      }
  }

  const ModelSpec spec_;
  std::vector<Piece> pieces_;
};

}  // namespace

std::unique_ptr<TensorFile> experts_apart(const ModelSpec& spec, std::unique_ptr<TensorFile> file) {
  if (spec.num_experts == 0) return file;
  const std::vector<ModuleUse> modules = modules_of(spec);
  const bool in_one = std::any_of(modules.begin(), modules.end(), [](const ModuleUse& module) {
    return module.kind == ModuleKind::experts;
  });
  if (in_one || std::none_of(file->tensors().begin(), file->tensors().end(),
                             [](const TensorInfo& tensor) { return joined(tensor.name); }))
    return file;
  return std::make_unique<ExpertsApart>(spec, std::move(file));
}

}  // namespace forge
