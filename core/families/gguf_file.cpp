#include "core/base/text.h"
#include "core/io/gguf_tensors.h"
#include "core/families/gguf_spec.h"

namespace forge {
namespace {

// Strings, numbers and switches of the metadata; arrays (vocabularies) stay in the file.
Json scalar_metadata(const Gguf& gguf) {
  Json json = Json::object();
  for (const std::string& key : gguf.keys()) {
    switch (gguf.find(key)->type) {
      case GgufType::array:
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
  return model_spec_from_gguf(scalar_metadata(file->gguf()), *file, path);
}

}  // namespace forge
