#include <fstream>
#include <iterator>

#include "internal.hpp"

namespace trtdsl {

std::string read_file(std::filesystem::path const& path, char const* code, std::string const& what) {
    std::ifstream file(path, std::ios::binary);
    std::error_code ignored;
    if (!file || std::filesystem::is_directory(path, ignored)) throw Error(code, what + " " + path.string());
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace trtdsl
