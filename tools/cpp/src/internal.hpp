// What the sources share and no program needs.
#pragma once

#include "trtdsl_engine.hpp"

namespace trtdsl {

// The bytes of a file. Throws `code`, saying `what` and the path.
std::string read_file(std::filesystem::path const& path, char const* code, std::string const& what);

}  // namespace trtdsl
