#include <fstream>
#include <sstream>

#include "internal.hpp"

namespace trtdsl {

namespace {

// numpy's type strings, little-endian, and torch's names.
std::map<std::string, std::string> const kDescr{{"<f4", "float32"}, {"<f2", "float16"}, {"<i4", "int32"}, {"<i8", "int64"},
                                                {"|i1", "int8"},    {"|u1", "uint8"},   {"|b1", "bool"},  {"<f8", "float64"}};

[[noreturn]] void not_npy(std::filesystem::path const& path, std::string const& why) {
    throw Error("feed-dtype", path.string() + " is not an array that can be fed: " + why);
}

}  // namespace

Array read_npy(std::filesystem::path const& path) {
    std::string const data = read_file(path, "feed-name", "there is no array");
    if (data.size() < 12 || data.compare(0, 6, "\x93NUMPY") != 0) not_npy(path, "it is no .npy file");
    bool const first = data[6] == 1;
    std::size_t const start = first ? 10 : 12;
    std::size_t length = 0;
    for (int i = first ? 1 : 3; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(data[8 + i]);
    if (data.size() < start + length) not_npy(path, "it is truncated");
    std::string const header = data.substr(start, length);
    auto const after = [&](std::string const& key) {
        auto const at = header.find("'" + key + "':");
        if (at == std::string::npos) not_npy(path, "it has no " + key);
        return header.find_first_not_of(' ', at + key.size() + 3);
    };
    auto const type = after("descr");
    auto const quoted = header.substr(type + 1, header.find('\'', type + 1) - type - 1);
    auto const found = kDescr.find(quoted);
    if (found == kDescr.end()) not_npy(path, "its type is " + quoted);
    if (header.compare(after("fortran_order"), 5, "False") != 0) not_npy(path, "it is in Fortran's order");
    auto const open = header.find('(', after("shape")), close = header.find(')', open);
    if (open == std::string::npos || close == std::string::npos) not_npy(path, "it has no shape");
    Array array{found->second, {}, {}};
    std::size_t bytes = item_size(array.dtype);
    std::stringstream sizes(header.substr(open + 1, close - open - 1));
    for (std::string part; std::getline(sizes, part, ',');)
        if (part.find_first_of("0123456789") != std::string::npos) {
            array.shape.push_back(std::atoll(part.c_str()));
            bytes *= static_cast<std::size_t>(array.shape.back());
        }
    array.data = data.substr(start + length);
    if (array.data.size() != bytes) not_npy(path, "it has " + std::to_string(array.data.size()) + " bytes of data, not " + std::to_string(bytes));
    return array;
}

void write_npy(std::filesystem::path const& path, Array const& array) {
    std::string descr;
    for (auto const& [text, dtype] : kDescr)
        if (dtype == array.dtype) descr = text;
    if (descr.empty()) throw Error("execution-failed", "numpy has no " + array.dtype);
    std::string shape;
    for (auto size : array.shape) shape += std::to_string(size) + ",";
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
    header += '\n';
    auto const temporary = path.string() + ".part";
    {
        std::ofstream file(temporary, std::ios::binary);
        file.write("\x93NUMPY\x01\x00", 8);
        file.put(static_cast<char>(header.size() & 255)).put(static_cast<char>(header.size() >> 8));
        file << header << array.data;
        if (!file.flush()) throw Error("execution-failed", "cannot write " + path.string());
    }
    std::filesystem::rename(temporary, path);
}

}  // namespace trtdsl
