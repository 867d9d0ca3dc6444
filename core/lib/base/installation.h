#pragma once
// The folder of this program, and the Python packages near it: LibTorch (torch/, nvidia/) and Arrow
// (pyarrow/) are installed as such packages. An installation is found whole, whatever environment
// is active.
//
//   std::string folder = find_package_folder([](const std::string& f) { return file_exists(f + "/pyarrow/…"); });
#include <functional>
#include <string>

namespace forge {

// Returns the folder of the running program, from which its other files are found.
std::string program_folder();

// Returns the first folder of Python packages that is `wanted`; empty if there is none. In this
// order: the tree's own (libexec/forge/site-packages, a folder or a link), those of the environment
// or prefix that the program is installed in (lib/python3.*/site-packages …), the prefix itself
// (pip's --target); then sys.path of the python3 beside the program and of the first on PATH, which
// takes 15 ms each.
std::string find_package_folder(const std::function<bool(const std::string&)>& wanted);

}  // namespace forge
