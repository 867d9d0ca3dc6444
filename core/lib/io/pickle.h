#pragma once
// Recognises pickle files. They are programs, not data: forge has no reader for them and says how
// to convert.
#include <string>
#include <string_view>

namespace forge {

// True if a file name is one that PyTorch pickles are known by: *.bin, *.pt, *.pth, *.ckpt, *.pkl,
// *.bin.index.json.
bool pickle_name(std::string_view file_name);
// True if a file's first bytes are a pickle or a zip archive (what torch.save writes), whatever its
// name.
bool pickle_content(std::string_view first_bytes);
// Throws Error(environment): one sentence, with the command that converts `folder`'s weights as its
// hint.
[[noreturn]] void refuse_pickle(const std::string& path);

}  // namespace forge
