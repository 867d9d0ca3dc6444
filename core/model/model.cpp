#include "core/model/model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/mapped_pages.h"
#include "core/lib/tensor/counting_allocator.h"
#include "core/model/dtype.h"
#include "core/model/families/modules.h"
#include "core/model/families/parameters.h"
#include "core/model/families/step.h"
#include "core/model/graph/fold_adapters.h"
#include "kernels/device/device_of.h"
#include "kernels/linear/linear_op.h"
#include "kernels/quantize/by_16.h"

namespace forge {

at::Tensor head_weight(const Model& model) { return model.head.to(model.type); }

LinearSpec* find_linear(Model& model, const std::string& module) {
  auto found = model.linears.find(module);
  return found == model.linears.end() ? nullptr : &found->second;
}

at::Tensor* find_weight(Model& model, const std::string& name) {
  if (name == embedding_name(model.spec)) return &model.embedding;
  if (name == head_name(model.spec)) return &model.head;
  if (model.spec.head_bias && name == head_bias_name(model.spec)) return &model.head_bias;
  if (auto vector = model.norms.find(name); vector != model.norms.end()) return &vector->second;
  if (LinearSpec* experts = find_linear(model, name)) return &experts->weight;
  constexpr std::string_view kExpertsBias = "_bias";
  if (ends_with(name, kExpertsBias))
    if (LinearSpec* experts = find_linear(model, name.substr(0, name.size() - kExpertsBias.size()))) return &experts->bias;
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return nullptr;
  const std::string module = name.substr(0, dot), part = name.substr(dot + 1);
  if (part == "weight") {
    if (auto norm = model.norms.find(module); norm != model.norms.end()) return &norm->second;
    if (auto table = model.tables.find(module); table != model.tables.end()) return &table->second;
  }
  if (part == "bias")
    if (auto bias = model.norm_biases.find(module); bias != model.norm_biases.end()) return &bias->second;
  LinearSpec* linear = find_linear(model, module);
  if (!linear) return nullptr;
  return part == "weight" ? &linear->weight : part == "bias" ? &linear->bias : nullptr;
}

std::vector<std::pair<std::string, at::Tensor>> constant_weights(const Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> constants;
  for (const Parameter& parameter : base_parameters(model.spec))
    if (parameter.constant) constants.emplace_back(parameter.name, *find_weight(const_cast<Model&>(model), parameter.name));
  return constants;
}

namespace {

QuantizeOptions options_of(const BaseStorage& storage) {
  const QuantizedFormat format = storage.quantization == Quantization::nf4   ? QuantizedFormat::nf4
                                 : storage.quantization == Quantization::fp4 ? QuantizedFormat::fp4
                                 : storage.quantization == Quantization::fp8 ? QuantizedFormat::fp8
                                                                             : QuantizedFormat::int8;
  return {.format = format, .nested = storage.double_quantization};
}

// Names of the base's weights that are held otherwise than in the compute type.
struct Held {
  std::set<std::string> quantized, frozen;
};

constexpr std::pair<DType, BlockCoding> kCodings[] = {
    {DType::q8_0, BlockCoding::q8_0}, {DType::q4_0, BlockCoding::q4_0}, {DType::q4_1, BlockCoding::q4_1}, {DType::q5_0, BlockCoding::q5_0},
    {DType::q5_1, BlockCoding::q5_1}, {DType::q4_k, BlockCoding::q4_k}, {DType::q5_k, BlockCoding::q5_k}, {DType::q6_k, BlockCoding::q6_k}};

// Returns the coding of a matrix that is in blocks in its file; nothing if it is not.
std::optional<BlockCoding> stored_coding(const TensorFile& file, int64_t index) {
  if (index < 0 || !file.stores_rows(static_cast<size_t>(index))) return {};
  const TensorInfo& tensor = file.tensors()[static_cast<size_t>(index)];
  if (tensor.shape.size() == 2)
    for (const auto& [dtype, coding] : kCodings)
      if (dtype == tensor.dtype) return coding;
  return {};
}

// Returns the coding of such a matrix in memory, to be multiplied by rows of `type`. Sixteen rows
// side by side are multiplied in whole numbers; 16-bit values become these without a loss that
// matters.
std::optional<BlockCoding> held_coding(const TensorFile& file, int64_t index, c10::ScalarType type) {
  const std::optional<BlockCoding> stored = stored_coding(file, index);
  if (!stored || type == at::kFloat) return stored;
  const auto side_by_side = coding_by_16(*stored, file.tensors()[static_cast<size_t>(index)].shape[0]);
  return side_by_side ? side_by_side : stored;
}

// Loads a matrix in blocks. `place` is where its bytes are wanted, or null.
QuantizedWeight load_blocks(const TensorFile& file, int64_t index, c10::ScalarType type, const at::Tensor* place = nullptr) {
  const TensorInfo& tensor = file.tensors()[static_cast<size_t>(index)];
  QuantizedWeight blocks{.rows = tensor.shape[0], .columns = tensor.shape[1], .stored = held_coding(file, index, type)};
  const int64_t bytes = bytes_of(tensor.dtype, tensor.count());
  blocks.codes = place ? *place : at::empty({bytes}, at::kByte);
  const at::Tensor read = by_16(*blocks.stored) ? at::empty({bytes}, at::kByte) : blocks.codes;
  file.read_stored(static_cast<size_t>(index), static_cast<char*>(read.data_ptr()));
  if (by_16(*blocks.stored))
    lay_by_16(*blocks.stored, blocks.rows, blocks.columns, read.const_data_ptr<uint8_t>(), blocks.codes.data_ptr<uint8_t>());
  return blocks;
}

Held held_names(const BaseStorage& storage, const TensorFile& file) {
  Held held;
  for (const Parameter& parameter : storage.parameters) {
    if (storage.stored_blocks && parameter.quantizable && !parameter.trainable && stored_coding(file, file.find(parameter.name)))
      held.quantized.insert(parameter.name);
    if (parameter.quantized && storage.quantization != Quantization::none)
      held.quantized.insert(parameter.name);
    else if (storage.frozen && !parameter.trainable && parameter.shape.size() >= 2 && parameter.role != Role::filter)
      held.frozen.insert(parameter.name);
  }
  // A trained copy starts from the exact values.
  for (const Parameter& parameter : storage.parameters)
    if (parameter.trainable) held.frozen.erase(base_name(parameter));
  return held;
}

// Least bytes of a tensor that is mapped. A smaller one is copied, since it would take a page of
// the file and a mapping of its own.
constexpr int64_t kWorthMapping = int64_t{16} << 10;

// Returns the file's own memory as a tensor; undefined if that is impossible. It is read-only,
// since the mapping is. Copying 2 GB out of a cached file spent four fifths of its time on zeroing
// the pages of the copy. The mapping is shared: a program that rewrites the file in place changes a
// run that trains (core/train/start_file_watch.h).
at::Tensor mapped(std::string_view bytes, const std::vector<int64_t>& shape, c10::ScalarType type) {
  if (static_cast<int64_t>(bytes.size()) < kWorthMapping || reinterpret_cast<uintptr_t>(bytes.data()) % c10::elementSize(type) != 0) return {};
  const std::shared_ptr<const char> again = map_again(bytes);
  if (!again) return {};
  const auto size = static_cast<int64_t>(bytes.size());
  read_ahead({again.get(), bytes.size()});
  count_foreign(size);
  return at::from_blob(const_cast<char*>(again.get()), shape, [again, size](void*) { count_foreign(-size); }, at::TensorOptions(type));
}

// True if the bytes of tensor `index` are those of a tensor of `type`.
bool held_as_stored(const TensorFile& file, int64_t index, c10::ScalarType type) {
  return index >= 0 && file.bytes_are_values(static_cast<size_t>(index)) && file.tensors()[static_cast<size_t>(index)].dtype == dtype_of(type);
}

// True if the device reads the memory of a mapped file. An emulated GPU does not: its tensors are
// LibTorch's of a CPU.
bool reads_files(c10::Device device) { return device.is_cpu() && !device_of(device).separate(); }

// Returns matrices that are adjacent in the file too, mapped as one: [rows, in], or undefined.
at::Tensor mapped_together(const TensorFile& file, const std::vector<std::string>& names, const std::vector<int64_t>& shape, c10::ScalarType type) {
  std::string_view all;
  for (const std::string& name : names) {
    const int64_t index = file.find(name);
    if (!held_as_stored(file, index, type)) return {};
    const std::string_view bytes = file.bytes(static_cast<size_t>(index));
    if (!all.empty() && bytes.data() != all.data() + all.size()) return {};
    all = {all.empty() ? bytes.data() : all.data(), all.size() + bytes.size()};
  }
  FORGE_CHECK(static_cast<int64_t>(all.size()) == shape[0] * shape[1] * static_cast<int64_t>(c10::elementSize(type)), names[0] << " has another size in the file");
  return mapped(all, shape, type);
}

// Memory of a weight beside others.
struct Place {
  at::Tensor tensor;
  bool filled = false;
};

// Adds adjoining places for matrices that stay in their file's blocks, if all have blocks of one
// type.
void add_block_places(const TensorFile& file, const std::vector<std::string>& names, c10::ScalarType type, std::map<std::string, Place>& places) {
  std::vector<int64_t> bytes;
  std::optional<BlockCoding> coding;
  for (const std::string& name : names) {
    const int64_t index = file.find(name);
    const std::optional<BlockCoding> its = held_coding(file, index, type);
    if (!its || (coding && *coding != *its)) return;
    coding = its;
    const TensorInfo& tensor = file.tensors()[static_cast<size_t>(index)];
    bytes.push_back(bytes_of(tensor.dtype, tensor.count()));
  }
  const std::vector<at::Tensor> parts = at::empty({std::accumulate(bytes.begin(), bytes.end(), int64_t{0})}, at::kByte).split_with_sizes(bytes);
  for (size_t i = 0; i < names.size(); ++i) places[names[i]] = {parts[i], false};
}

// Returns the places of weights that one product reads together (see Recorder::linear): one matrix
// after the other.
std::map<std::string, Place> adjoining_places(const ModelSpec& spec, const TensorFile& file, const Held& held, c10::ScalarType type,
                                              c10::Device device, const BaseStorage& storage) {
  const Graph list = forward_list({spec, storage.folded.value_or(ModuleTraining())});
  std::map<std::string, Place> places;
  for (const Op& op : list.ops) {
    if (op.kind != &ops::linear) continue;
    const int64_t ranks = storage.folded && folds(list, op) ? ranks_of(list, op) : 0;
    if (op.modules.size() < 2 && ranks == 0) continue;
    int64_t rows = 0, quantized = 0, frozen = 0;
    std::vector<std::string> names;
    for (size_t i = 0; i < op.modules.size(); ++i) {
      names.push_back(list.module(op, i).path + ".weight");
      rows += list.module(op, i).out;
      quantized += static_cast<int64_t>(held.quantized.count(names[i]));
      frozen += static_cast<int64_t>(held.frozen.count(names[i]));
    }
    if (storage.stored_blocks && quantized == static_cast<int64_t>(op.modules.size())) add_block_places(file, names, type, places);
    if (quantized > 0 || (frozen > 0 && frozen < static_cast<int64_t>(op.modules.size()))) continue;
    const int64_t in = list.module(op).in;
    const c10::ScalarType wanted = frozen > 0 ? *storage.frozen : type;
    at::Tensor all;
    if (reads_files(device) && ranks == 0 && !storage.written) all = mapped_together(file, names, {rows, in}, wanted);
    const bool filled = all.defined();
    const auto options = at::TensorOptions().dtype(wanted).device(device);
    // The memory beside the adapters' blocks is zero.
    if (!filled) all = ranks > 0 ? at::zeros({rows + ranks, in + spare_columns(ranks)}, options) : at::empty({rows, in}, options);
    for (size_t i = 0, row = 0; i < op.modules.size(); row += static_cast<size_t>(list.module(op, i).out), ++i)
      places[names[i]] = {all.narrow(0, static_cast<int64_t>(row), list.module(op, i).out).narrow(1, 0, in), filled};
  }
  return places;
}

// A tensor of the file as it is held.
struct Loaded {
  at::Tensor plain;
  QuantizedWeight quantized;
};

at::Tensor narrowed(const at::Tensor& wide, const std::string& name, c10::ScalarType type, c10::Device device) {
  at::Tensor held = wide.to(type);
  if (!all_finite(held.to(at::kFloat)) && all_finite(wide))
    throw Error(ErrorKind::environment,
                name + ": holds a value past the range of " + name_of(dtype_of(type)) + ", in which weights are stored here")
        .hint("quantise the base (model.quantization: nf4), which scales every block");
  return held.to(device);
}

// Bytes that are copied at once: no more than this of the file is in memory beside the copy.
constexpr size_t kPiece = size_t{8} << 20;

// Loads a tensor that is held as the file has it: in the file's own memory, or by a copy without
// fp32 between.
at::Tensor load_as_stored(std::string_view bytes, const Parameter& parameter, c10::ScalarType type, c10::Device device,
                          const BaseStorage& storage, const at::Tensor* place) {
  if (!place && reads_files(device) && !storage.written)
    if (at::Tensor own = mapped(bytes, parameter.shape, type); own.defined()) return own;
  const bool direct = place && place->is_cpu() && place->is_contiguous();
  at::Tensor stored = direct ? *place : at::empty(parameter.shape, type);
  FORGE_CHECK(bytes.size() == stored.nbytes(), parameter.name << " has " << bytes.size() << " bytes in the file, not " << stored.nbytes());
  read_ahead(bytes);
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const std::string_view piece = bytes.substr(at, kPiece);
    std::memcpy(static_cast<char*>(stored.data_ptr()) + at, piece.data(), piece.size());
    let_go(piece);
  }
  return direct ? stored : place ? at::Tensor(*place).copy_(stored) : stored.to(device);
}

// Throws Error(environment) if fp8 makes more than 1 % of the weights zero. Of normal numbers in
// rows of 4,096 it makes six in a million zero. In rows with a few values that are much larger than
// the rest, it makes the rest zero.
void require_small_loss(const QuantizedWeight& weight, const std::string& name) {
  constexpr double kMost = 0.01;
  const double share = static_cast<double>(weight.vanished) / static_cast<double>(weight.rows * weight.columns);
  if (share <= kMost) return;
  throw Error(ErrorKind::environment, name + ": " + format_number(std::round(1000 * share) / 10) +
                                          " % of its weights would be zero in fp8, being less than 1 / 458,752 of the largest of their row; at most 1 % may be")
      .hint("use model.quantization: nf4, which scales blocks of 64, or none");
}

// Returns the blocks that the file holds, if they are of the kind that is asked for.
std::optional<QuantizedWeight> taken_blocks(const TensorFile& file, size_t index,
                                            const Parameter& parameter,
                                            const BaseStorage& storage) {
  const std::optional<BookBlocks> blocks = file.book_blocks(index);
  if (!blocks) return {};
  if (!std::all_of(blocks->absmax.begin(), blocks->absmax.end(),
                   [](float value) { return std::isfinite(value); }))
    throw Error(ErrorKind::environment, parameter.name + ": a scale of its blocks is not finite")
        .hint("the model file is damaged");
  return taken(*blocks, parameter.shape[0], parameter.shape[1], options_of(storage));
}

Loaded load_tensor(const TensorFile& file, const Parameter& parameter, c10::ScalarType type, c10::Device device,
                   const Held& held, const BaseStorage& storage, const Place* beside) {
  if (beside && beside->filled) return {.plain = beside->tensor};
  const at::Tensor* place = beside ? &beside->tensor : nullptr;
  const int64_t index = file.find(parameter.name);
  if (index < 0 && parameter.name == std::string(kScoreModule) + ".weight")
    return {.plain = at::zeros(parameter.shape, at::TensorOptions(type).device(device))};
  if (index < 0) throw Error(ErrorKind::environment, "the model has no tensor " + parameter.name);
  const auto at = static_cast<size_t>(index);
  if (storage.stored_blocks && held.quantized.count(parameter.name))
    return {.quantized = load_blocks(file, index, type, place)};
  const c10::ScalarType wanted = held.frozen.count(parameter.name) ? *storage.frozen : type;
  if (!held.quantized.count(parameter.name) && held_as_stored(file, index, wanted))
    return {.plain = load_as_stored(file.bytes(at), parameter, wanted, device, storage, place)};
  if (held.quantized.count(parameter.name))
    if (auto own = taken_blocks(file, at, parameter, storage))
      return {.quantized = to_device(*std::move(own), device)};
  const bool direct = place && place->is_cpu() && place->scalar_type() == at::kFloat && place->is_contiguous();
  at::Tensor wide = direct ? *place : at::empty(parameter.shape, at::kFloat);
  file.read_f32(at, wide.data_ptr<float>());
  if (file.bytes_are_values(at)) file.release(at);  // it is not read again
  if (held.frozen.count(parameter.name)) {
    at::Tensor narrow = narrowed(wide, parameter.name, *storage.frozen, device);
    return {.plain = place ? at::Tensor(*place).copy_(narrow) : narrow};
  }
  if (place) return {.plain = direct ? wide : at::Tensor(*place).copy_(wide)};
  if (!held.quantized.count(parameter.name)) return {.plain = wide.to(device, type)};
  if (!all_finite(wide))
    throw Error(ErrorKind::environment,
                parameter.name + ": holds a value that is not finite, and cannot be quantised")
        .hint("the model file is damaged, or its training diverged");
  QuantizedWeight quantized = quantize(wide, options_of(storage));
  require_small_loss(quantized, parameter.name);
  return {.quantized = to_device(std::move(quantized), device)};
}

// Loads each tensor in a task of its own: decoding block types, converting and quantising cost more
// than reading.
void load_into(Model& model, const TensorFile& file, const std::vector<Parameter>& parameters, const BaseStorage& storage, const Held& held,
               const std::map<std::string, Place>& places) {
  std::vector<Loaded> loaded(parameters.size());
  at::parallel_for(0, static_cast<int64_t>(parameters.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t at = static_cast<size_t>(i);
      auto place = places.find(parameters[at].name);
      loaded[at] = load_tensor(file, parameters[at], model.type, model.device, held, storage,
                               place == places.end() ? nullptr : &place->second);
    }
  });
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    if (loaded[i].plain.defined())
      *find_weight(model, name) = loaded[i].plain;
    else
      find_linear(model, name.substr(0, name.rfind('.')))->quantized = loaded[i].quantized;
  }
}

}  // namespace

Model empty_model(const ModelSpec& spec, c10::ScalarType type, c10::Device device) {
  Model model{.spec = spec, .type = type, .device = device};
  for (const ModuleUse& module : modules_of(spec)) {
    if (module.kind == ModuleKind::linear || module.kind == ModuleKind::experts) model.linears[module.path];
    const bool filter = module.kind == ModuleKind::filter;
    if (module.kind == ModuleKind::norm || module.kind == ModuleKind::vector || filter) model.norms[module.path];
    if (module.kind == ModuleKind::embedding && module.path + ".weight" != embedding_name(spec)) model.tables[module.path];
    if ((module.kind == ModuleKind::norm || filter) && module.bias) model.norm_biases[module.path];
  }
  return model;
}

void load_weights(Model& model, const TensorFile& file, const std::vector<Parameter>& parameters) {
  load_into(model, file, parameters, {}, {}, {});
}

Model load_model(const ModelSpec& spec, const TensorFile& file, c10::ScalarType type, c10::Device device,
                 const BaseStorage& storage) {
  Model model = empty_model(spec, type, device);
  const Held held = held_names(storage, file);
  load_into(model, file, base_parameters(spec), storage, held, adjoining_places(spec, file, held, type, device, storage));
  if (!model.head.defined()) model.head = model.embedding;
  const int64_t head = file.find(spec.tie_word_embeddings ? embedding_name(spec) : logits_head_name(spec));
  if (storage.stored_blocks && stored_coding(file, head)) model.head_blocks = load_blocks(file, head, type);
  return model;
}

}  // namespace forge
