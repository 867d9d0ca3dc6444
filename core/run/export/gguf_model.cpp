#include "core/run/export/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/gguf_tensors.h"
#include "core/lib/text/add_tokens.h"
#include "core/lib/text/folder_vocabulary.h"
#include "core/model/families/described_family.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/gguf_spec.h"
#include "core/model/families/parameters.h"
#include "core/model/families/wrapper.h"
#include "core/run/export/gguf_metadata.h"
#include "core/run/model_text.h"

namespace forge {
namespace {

// A tensor of the file and its source.
struct Entry {
  TensorInfo info;
  std::vector<size_t> sources;  // in MergedModel::tensors(): one, or each expert's
  GgufRows rows, in_rows;  // the order of rows, and of columns
  bool plus_one = false;
  bool rates = false;  // −e^x of each value
  // Rows [first_row, first_row + rows of the entry) of a source with so many; 0: all of it.
  int64_t first_row = 0, source_rows = 0;
  // The columns [first, first + rows of the entry) of each joined expert, out of so many; they are
  // rows here. 0 columns: the tensor as it is.
  int64_t first_column = 0, columns = 0;
  int64_t half = -1;  // of each matrix of its source: 0 the upper, 1 the lower; −1: the whole
};

std::string require_name(const GgufArchitecture& architecture, const ModelSpec& spec, const std::string& tensor) {
  std::string name = gguf_name(architecture, unwrapped_name(spec, tensor));
  if (name.empty())
    throw Error(ErrorKind::job, "llama.cpp's architecture " + std::string(architecture.name) + " has no tensor " + tensor);
  return name;
}


// Checks that llama.cpp's loader asks for the shapes, the biases and the head that the model has,
// and for no others.
void require_loadable(const GgufArchitecture& architecture, const ModelSpec& spec) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::job, "llama.cpp's architecture " + std::string(architecture.name) + " " + what);
  };
  if (architecture.biases == GgufPart::unknown && (spec.o_bias || spec.mlp_bias))
    refuse("has no biases of attention's output or of the MLP, and this model has them");
  if (architecture.biases == GgufPart::required && !(spec.o_bias && spec.mlp_bias))
    refuse("has biases in every linear layer, and this model does not");
  if (const int64_t width = spec.num_heads * spec.head_dim; architecture.square_attention && width != spec.hidden_size)
    refuse("expects attention's heads to be as wide as the model, and here they are " + std::to_string(width) + " of " +
           std::to_string(spec.hidden_size));
  if (architecture.equal_heads && spec.num_kv_heads != spec.num_heads)
    refuse("expects as many heads of keys and values as of queries, and here they are " +
           std::to_string(spec.num_kv_heads) + " of " + std::to_string(spec.num_heads));
  const GgufRopeFactors factors = rope_factors_of(spec);
  if (spec.delta_key_dim != spec.delta_value_dim)
    refuse("expects heads of a delta rule whose keys are as wide as its values, and here they are " +
           std::to_string(spec.delta_key_dim) + " and " + std::to_string(spec.delta_value_dim));
  if ((!factors.always.empty() && !architecture.rope_freqs) || (!factors.up_to.empty() && !architecture.rope_factors))
    refuse(std::string("has no tensor for the rotary scaling ") + name_of(spec.rope.type) + " of this model");
  if (architecture.head == GgufPart::unknown && !spec.tie_word_embeddings)
    refuse("computes logits from the embedding, and this model has a head of its own");
}

Entry entry_of(const GgufArchitecture& architecture, std::string name, const ModelSpec& spec, const std::vector<int64_t>& shape,
               size_t source) {
  Entry entry{{std::move(name), shape, DType::f32}, {source}};
  const GgufRole role = hugging_face_name(architecture, entry.info.name).role;
  entry.rows = gguf_rows(architecture, role, shape.front(), gguf_heads_of(spec));
  entry.in_rows = gguf_columns(architecture, role, shape.back(), gguf_heads_of(spec));
  entry.rates = role == GgufRole::delta_rates;
  if (role == GgufRole::delta_filter) entry.info.shape = {shape.front(), shape.back()};
  entry.plus_one = architecture.norms_plus_one && role == GgufRole::norm && ends_with(entry.info.name, ".weight");
  if (role == GgufRole::gate_half || role == GgufRole::up_half) {
    entry.half = role == GgufRole::up_half;
    entry.info.shape[shape.size() - 2] /= 2;
  }
  if (role == GgufRole::row) entry.info.shape.erase(entry.info.shape.begin());
  if (role == GgufRole::experts) {
    entry.sources.assign(static_cast<size_t>(spec.num_experts), source);
    entry.info.shape.insert(entry.info.shape.begin(), spec.num_experts);
  }
  return entry;
}

// Returns the tensors of a file that joined experts [experts, in, columns] make: gates and values,
// or the tensor that leads out of the experts. Empty for any other tensor.
std::vector<Entry> entries_of_joined(const GgufArchitecture& architecture, const ModelSpec& spec, const std::string& name,
                                     const std::vector<int64_t>& shape, size_t source) {
  const size_t at = name.rfind(".experts.");
  if (!spec.joined_experts || shape.size() != 3 || at == name.npos) return {};
  const std::string one = name.substr(0, at) + ".experts.0.";
  const bool out = ends_with(name, ".down_proj");
  const std::vector<std::string> parts = out ? std::vector<std::string>{"down_proj"} : std::vector<std::string>{"gate_proj", "up_proj"};
  const int64_t count = shape[2] / static_cast<int64_t>(parts.size());
  std::vector<Entry> entries;
  for (size_t i = 0; i < parts.size(); ++i) {
    Entry entry{{require_name(architecture, spec, one + parts[i] + ".weight"), {shape[0], count, shape[1]}, DType::f32}, {source}};
    entry.first_column = static_cast<int64_t>(i) * count, entry.columns = shape[2];
    entries.push_back(std::move(entry));
  }
  return entries;
}
// Returns "blk.0.ffn_up_exps.weight" for "blk.0.ffn_gate_exps.weight".
std::string name_of_up(std::string gate) { return gate.replace(gate.find("_gate_"), 6, "_up_"); }

// Returns the two tensors that a file makes of what a delta rule's layer projects; empty for any
// other tensor.
std::vector<Entry> entries_of_projection(const GgufArchitecture& architecture, const ModelSpec& spec, const std::string& name,
                                         const std::vector<int64_t>& shape, size_t source) {
  if (architecture.layer != GgufArchitecture::Layer::qwen3_next || !ends_with(name, ".in_proj_qkvz.weight")) return {};
  const Entry whole = entry_of(architecture, require_name(architecture, spec, name), spec, shape, source);
  Entry mixed = whole, gate = whole;
  mixed.source_rows = gate.source_rows = shape[0];
  mixed.info.shape[0] = gate.first_row = spec.conv_channels();
  gate.info.shape[0] = shape[0] - spec.conv_channels();
  gate.info.name.replace(gate.info.name.find("attn_qkv"), std::string_view("attn_qkv").size(), "attn_gate");
  return {mixed, gate};
}

// `Tensor` has the name and shape of a model's tensor: TensorInfo or Parameter.
template <typename Tensor>
std::vector<Entry> entries_of(const ModelSpec& spec, const std::vector<Tensor>& tensors, const GgufFormat& format) {
  const GgufArchitecture& architecture = gguf_architecture_of(spec);
  require_loadable(architecture, spec);
  // A tied head that the loader requires is written as a second copy of the embedding.
  const bool twice = architecture.head == GgufPart::required && spec.tie_word_embeddings;
  std::vector<std::pair<std::string, size_t>> named;
  std::vector<Entry> entries;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<Entry> joined = entries_of_joined(architecture, spec, tensors[i].name, tensors[i].shape, i);
    if (joined.empty()) joined = entries_of_projection(architecture, spec, tensors[i].name, tensors[i].shape, i);
    std::move(joined.begin(), joined.end(), std::back_inserter(entries));
    if (!joined.empty()) continue;
    named.emplace_back(require_name(architecture, spec, tensors[i].name), i);
    if (hugging_face_name(architecture, named.back().first).role == GgufRole::gate_half)
      named.emplace_back(name_of_up(named.back().first), i);
    if (twice && named.back().first == "token_embd.weight") named.emplace_back("output.weight", i);
  }
  std::map<std::string, size_t> places;
  for (const auto& [name, i] : named) {
    const auto [place, is_new] = places.try_emplace(name, entries.size());
    if (is_new) entries.push_back(entry_of(architecture, name, spec, tensors[i].shape, i));
    if (const int64_t expert = expert_number(tensors[i].name); expert >= 0)
      entries[place->second].sources.at(static_cast<size_t>(expert)) = i;
  }
  for (Entry& entry : entries) entry.info.dtype = gguf_tensor_type(format, entry.info, spec);
  return entries;
}

// Reorders rows from Hugging Face's order to the file's. The rows begin at a row that keeps its
// position.
void reorder(std::span<const float> values, int64_t rows, const GgufRows& order, std::vector<float>& out) {
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  out.resize(values.size());
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(out.data() + order.file_row(row) * columns, values.data() + row * columns, static_cast<size_t>(columns) * 4);
}

// Makes rows of an entry's columns of whole experts.
void turn_experts(std::span<const float> values, const Entry& entry, std::vector<float>& out) {
  const int64_t count = entry.info.shape[1], in = entry.info.shape[2], whole = in * entry.columns;
  out.clear();
  for (int64_t expert = 0; expert < static_cast<int64_t>(values.size()) / whole; ++expert)
    for (int64_t column = 0; column < count; ++column)
      for (int64_t row = 0; row < in; ++row)
        out.push_back(values[static_cast<size_t>(expert * whole + row * entry.columns + entry.first_column + column)]);
}

// Takes the rows of one half of each matrix out of `values`, which begin at row `first` of all
// matrices' rows.
void take_half(const Entry& entry, int64_t first, std::span<const float> values,
               std::vector<float>& out) {
  const int64_t columns = entry.info.shape.back(),
                rows = entry.info.shape[entry.info.shape.size() - 2];
  out.clear();
  for (int64_t row = 0; row < static_cast<int64_t>(values.size()) / columns; ++row)
    if ((first + row) / rows % 2 == entry.half)
      out.insert(out.end(), values.begin() + row * columns, values.begin() + (row + 1) * columns);
}

// Reorders the values of each row.
void reorder_columns(std::span<const float> values, int64_t columns, const GgufRows& order, std::vector<float>& out) {
  out.resize(values.size());
  for (size_t row = 0; row < values.size(); row += static_cast<size_t>(columns))
    for (int64_t i = 0; i < columns; ++i) out[row + static_cast<size_t>(order.file_row(i))] = values[row + static_cast<size_t>(i)];
}

void write_tensor(const MergedModel& model, const Entry& entry, const PieceSink& sink) {
  std::vector<float> changed;
  std::vector<char> bytes;
  const int64_t columns = entry.info.shape.size() == 1 ? 1 : entry.info.shape.back();
  // Rows that change places among themselves are read together.
  const int64_t all_rows = std::max(entry.source_rows, entry.info.rows());
  const int64_t together = entry.rows.groups > 0 ? all_rows : std::max<int64_t>(1, entry.rows.head_rows);
  // A tensor of all experts has a row for each, in which are those of its matrix.
  const int64_t unit =
      entry.info.shape.size() == 3 && entry.half >= 0 ? 2 * entry.info.shape[1] : 1;
  const auto write_rows = [&](int64_t first, std::span<const float> values) {
    std::span<const float> rows = values;
    if (entry.columns > 0) {
      turn_experts(values, entry, changed);
      rows = changed;
    }
    if (entry.half >= 0) {
      take_half(entry, first * unit, values, changed);
      rows = changed;
    }
    if (entry.rows.head_rows > 0) {
      reorder(values, static_cast<int64_t>(values.size()) / columns, entry.rows, changed);
      rows = changed;
    }
    if (entry.source_rows > 0) rows = rows.subspan(static_cast<size_t>(entry.first_row * columns), static_cast<size_t>(entry.info.count()));
    if (entry.in_rows.head_rows > 0) {
      reorder_columns(values, columns, entry.in_rows, changed);
      rows = changed;
    }
    if (entry.rates) {
      std::vector<float> rates(rows.begin(), rows.end());
      for (float& value : rates) value = -std::exp(value);
      changed.swap(rates);
      rows = changed;
    }
    if (entry.plus_one) {
      changed.assign(rows.begin(), rows.end());
      for (float& value : changed) value += 1.0f;
      rows = changed;
    }
    encode_values(entry.info, rows, bytes, "f");
    sink({bytes.data(), bytes.size()});
  };
  for (const size_t source : entry.sources) model.read(source, together, write_rows);
}

// Returns a name with which llama.cpp loads the file. It takes a file whose general.name contains
// phi3 for one with Phi-3's vocabulary, and does not load it if tokens of that are missing
// (llama-vocab.cpp). Such a name loses its number.
std::string loadable_name(std::string name, const std::vector<std::string>& tokens) {
  for (const char* needed : {"</s>", "<unk>", "<s>", "<|endoftext|>"}) {
    if (std::find(tokens.begin(), tokens.end(), needed) != tokens.end()) continue;
    for (const std::string word : {"phi-3", "phi3"})
      for (size_t at; (at = lower(name).find(word)) != std::string::npos;) name.replace(at, word.size(), "phi");
    break;
  }
  return name;
}

// Adds the tokens that an adapter's tokenizer has after the GGUF's own.
void take_added_tokens(const Tokenizer& tokenizer, GgufVocabulary& vocabulary, GgufMetadata& metadata) {
  std::vector<std::string> added;
  for (auto id = static_cast<int64_t>(vocabulary.tokens.size()); id < tokenizer.vocab_size(); ++id)
    added.push_back(tokenizer.token_of(static_cast<int32_t>(id)).value_or(""));
  add_tokens(vocabulary, added);
  metadata.texts("tokenizer.ggml.tokens", vocabulary.tokens);
  metadata.integers("tokenizer.ggml.token_type", vocabulary.token_types);
  if (!vocabulary.scores.empty()) metadata.numbers("tokenizer.ggml.scores", vocabulary.scores);
}

// The tokens that fill a list up to the embedding's rows. What a file says of the model does not
// depend on them, and to list them is most of the work where no file is wanted.
enum class UnusedTokens : bool { left_out, listed };

GgufMetadata metadata_of(const ModelSpec& spec, const GgufSource& source, const GgufFormat& format, UnusedTokens unused) {
  GgufMetadata metadata;
  GgufVocabulary vocabulary;
  if (is_directory(source.model_path)) {
    vocabulary =
        vocabulary_of_folder(source.text_path, open_tokenizer(source.text_path), spec.vocab_size);
    if (unused == UnusedTokens::listed) add_unused_tokens(vocabulary, spec.vocab_size);
    add_model_keys(spec, metadata);
    add_vocabulary_keys(vocabulary, metadata);
  } else {
    const Gguf gguf(source.model_path);
    copy_keys(gguf, metadata);
    vocabulary = gguf_vocabulary(gguf);
    if (spec.base_vocab_size > 0) take_added_tokens(open_tokenizer(source.text_path), vocabulary, metadata);
  }
  if (source.end_of_turn && source.end_of_turn != vocabulary.eos_id) metadata.integer("tokenizer.ggml.eot_token_id", *source.end_of_turn);
  metadata.text("general.type", "model");
  metadata.text("general.name", loadable_name(source.name, vocabulary.tokens));
  metadata.integer("general.file_type", format.file_type);
  metadata.integer("general.quantization_version", 2);
  if (!source.chat_template.empty()) metadata.text("tokenizer.chat_template", source.chat_template);
  if (!source.tool_template.empty()) metadata.text("tokenizer.chat_template.tool_use", source.tool_template);
  return metadata;
}

// The vectors of a file that scale rotary positions, by name.
using RopeTensors = std::map<std::string, std::vector<float>>;

RopeTensors rope_tensors(const ModelSpec& spec) {
  const GgufRopeFactors factors = rope_factors_of(spec);
  RopeTensors tensors{{"rope_freqs.weight", factors.always},
                      {"rope_factors_short.weight", factors.up_to},
                      {"rope_factors_long.weight", factors.past}};
  std::erase_if(tensors, [](const auto& tensor) { return tensor.second.empty(); });
  return tensors;
}

// Returns the file's tensors: those of rotary positions first.
std::vector<TensorInfo> all_tensors(const RopeTensors& rope, const std::vector<Entry>& entries) {
  std::vector<TensorInfo> tensors;
  for (const auto& [name, values] : rope)
    tensors.push_back({name, {static_cast<int64_t>(values.size())}, DType::f32});
  for (const Entry& entry : entries) tensors.push_back(entry.info);
  return tensors;
}

void write_floats(const std::vector<float>& values, const PieceSink& sink) {
  sink({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

// Checks that llama.cpp would read the settings used in training. The file's metadata is read back
// into a ModelSpec: this is the one guard against files that load and compute something else.
void require_nothing_lost(const ModelSpec& spec, const std::string& path) {
  const std::vector<std::string> lost = lost_settings(spec, model_spec_of_gguf(path, described_in(spec)));
  if (!lost.empty()) throw Error(ErrorKind::job, "a GGUF cannot describe all of this model: " + join(lost, "; "));
}

void refuse_more_than_factors(const AdapterFile& adapter, const ModelSpec& spec) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::environment, adapter.folder + ": " + what + ", which a LoRA GGUF has no place for")
        .hint("export the merged model: --gguf");
  };
  if (adapter.config.use_dora) refuse("is a DoRA adapter");
  if (!adapter.config.trainable_token_indices.empty()) refuse("trains rows of single tokens");
  if (adapter.config.bias != LoraBias::none) refuse("trains biases");
  for (const VocabularySite& site : vocabulary_sites_of(adapter, spec)) refuse("adapts " + site.module);
  if (!adapter.config.modules_to_save.empty())
    refuse("keeps " + join(adapter.config.modules_to_save, ", ") + " whole");
}

}  // namespace

void require_gguf(const ModelSpec& spec, const std::string& model_path, const std::string& text_path, const std::string& scratch) {
  const GgufFormat& format = gguf_format("f32");
  // A layer's experts make one tensor, which the first of a row of experts tells.
  const std::vector<Entry> entries = entries_of(spec, base_parameters(spec, Experts::in_rows), format);
  const GgufMetadata metadata = metadata_of(spec, {.model_path = model_path, .text_path = text_path}, format, UnusedTokens::left_out);
  const RopeTensors rope = rope_tensors(spec);
  const std::string path = scratch + "/headers.gguf";
  write_gguf_headers(path, metadata, all_tensors(rope, entries), rope.size(),
                     [&](const TensorInfo& tensor, const PieceSink& sink) {
                       write_floats(rope.at(tensor.name), sink);
                     });
  require_nothing_lost(spec, path);
}

int64_t bytes_of_gguf(const MergedModel& model, const GgufFormat& format) {
  int64_t bytes = 0;
  for (const Entry& entry : entries_of(model.spec(), model.tensors(), format)) bytes += bytes_of(entry.info.dtype, entry.info.count());
  return bytes;
}

void write_gguf_model(const MergedModel& model, const GgufSource& source, const GgufFormat& format, const std::string& path,
                      const Written& written) {
  const std::vector<Entry> entries = entries_of(model.spec(), model.tensors(), format);
  const GgufMetadata metadata = metadata_of(model.spec(), source, format, UnusedTokens::listed);
  const RopeTensors rope = rope_tensors(model.spec());
  std::map<std::string, const Entry*> by_name;
  for (const Entry& entry : entries) by_name[entry.info.name] = &entry;
  const auto total = static_cast<double>(bytes_of_gguf(model, format));
  int64_t done = 0;
  const std::vector<TensorInfo> tensors = all_tensors(rope, entries);
  write_gguf(path, metadata, tensors, [&](const TensorInfo& tensor, const PieceSink& sink) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end()) return write_floats(rope.at(tensor.name), sink);
    written(static_cast<double>(done) / total);
    write_tensor(model, *found->second, sink);
    done += bytes_of(tensor.dtype, tensor.count());
  });
  require_nothing_lost(model.spec(), path);
  written(1);
}

void write_gguf_lora(const AdapterFile& adapter, const ModelSpec& spec, DType dtype, const std::string& name,
                     const std::string& path) {
  refuse_more_than_factors(adapter, spec);
  const GgufArchitecture& architecture = gguf_architecture_of(spec);
  const std::vector<AdapterSite> sites = sites_of(adapter, spec);
  const std::unique_ptr<TensorFile> weights = open_adapter_weights(adapter.folder, spec);
  check_adapter_weights(*weights, adapter.folder, trained_by(adapter, spec));
  const auto whole = [&](const std::string& tensor) {
    return whole_tensor(*weights, static_cast<size_t>(weights->find(peft_name(tensor))));
  };

  GgufMetadata metadata;
  metadata.text("general.type", "adapter");
  metadata.text("general.architecture", std::string(architecture.name));
  metadata.text("general.name", name);
  metadata.text("adapter.type", "lora");
  metadata.number("adapter.lora.alpha", adapter.config.alpha);
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::vector<float>> values;
  const auto add = [&](const std::string& tensor, std::vector<int64_t> shape, std::vector<float> data) {
    tensors.push_back({tensor, std::move(shape), dtype});
    values[tensor] = std::move(data);
  };
  for (const AdapterSite& site : sites) {
    if (expert_number(site.module) >= 0)
      throw Error(ErrorKind::environment, adapter.folder + ": adapts single experts, of which forge writes no LoRA GGUF")
          .hint("export the merged model: --gguf");
    const std::string target = require_name(architecture, spec, site.module + ".weight");
    std::vector<float> b = whole(site.module + ".lora_B.weight");
    // llama.cpp multiplies by alpha / rank.
    const double alpha = adapter.config.alpha;
    const auto factor = static_cast<float>(alpha != 0 ? site.scale * static_cast<double>(site.rank) / alpha : 0);
    for (float& value : b) value *= factor;
    const GgufRole role = hugging_face_name(architecture, target).role;
    if (role == GgufRole::delta_joined)
      throw Error(ErrorKind::environment, adapter.folder + ": adapts " + site.module + ", which is two matrices in llama.cpp")
          .hint("export the merged model: --gguf");
    std::vector<float> a = whole(site.module + ".lora_A.weight"), reordered;
    if (const GgufRows order = gguf_rows(architecture, role, site.out_features, gguf_heads_of(spec)); order.head_rows > 0) {
      reorder(b, site.out_features, order, reordered);
      b.swap(reordered);
    }
    if (const GgufRows order = gguf_columns(architecture, role, site.in_features, gguf_heads_of(spec)); order.head_rows > 0) {
      reorder_columns(a, site.in_features, order, reordered);
      a.swap(reordered);
    }
    add(target + ".lora_a", {site.rank, site.in_features}, std::move(a));
    add(target + ".lora_b", {site.out_features, site.rank}, std::move(b));
  }
  write_gguf(path, metadata, tensors, [&](const TensorInfo& tensor, const PieceSink& sink) {
    std::vector<char> bytes;
    encode_values(tensor, values.at(tensor.name), bytes, "f");
    sink({bytes.data(), bytes.size()});
  });
}

}  // namespace forge
