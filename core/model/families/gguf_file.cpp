#include <algorithm>

#include "core/lib/base/text.h"
#include "core/lib/io/gguf_tensors.h"
#include "core/model/families/gguf_spec.h"

namespace forge {
namespace {

// Returns a setting that may be stated for each layer: one number if all are equal, else the list.
// Returns null for any other array.
Json setting_of_layers(const Gguf& gguf, const std::string& key) {
  constexpr int64_t kMostListed = 1 << 12;
  const GgufValue& value = *gguf.find(key);
  const size_t dot = key.find('.');
  const bool of_model = dot != key.npos && gguf_architecture(key.substr(0, dot));
  const bool words = value.element == GgufType::string || value.element == GgufType::array;
  if (!of_model || words || value.count == 0 || value.count > kMostListed) return nullptr;
  const bool real = value.element == GgufType::f32 || value.element == GgufType::f64;
  Json list = Json::array();
  if (value.element == GgufType::boolean)
    for (const char flag : value.bytes) list.push_back(flag != 0);
  else
    list = real ? Json(gguf.get_numbers(key)) : Json(gguf.get_ints(key));
  return std::all_of(list.begin(), list.end(), [&](const Json& number) { return number == list[0]; }) ? Json(list[0]) : list;
}

// Returns the strings, numbers and flags of the metadata. Arrays (vocabularies) stay in the file,
// except settings of layers.
Json scalar_metadata(const Gguf& gguf) {
  Json json = Json::object();
  for (const std::string& key : gguf.keys()) {
    switch (gguf.find(key)->type) {
      case GgufType::array:
        if (Json setting = setting_of_layers(gguf, key); !setting.is_null()) json[key] = std::move(setting);
        break;
      case GgufType::string:
        json[key] = gguf.get_string(key, "");
        break;
      case GgufType::boolean:
        json[key] = gguf.get_bool(key, false);
        break;
      case GgufType::f32:
      case GgufType::f64:
        json[key] = gguf.get_number(key, 0);
        break;
      default:
        json[key] = gguf.get_int(key, 0);
    }
  }
  return json;
}

}  // namespace

ModelSpec model_spec_of_gguf(const std::string& path) {
  const auto file = open_gguf(path, Data::optional);
  return model_spec_from_gguf(scalar_metadata(file->gguf()), *file, file->rope_factors(), path);
}

}  // namespace forge
