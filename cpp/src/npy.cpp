#include <utility>

#include "internal.hpp"

namespace trtdsl {

namespace {

// numpy's type strings, little-endian, and torch's names.
std::map<std::string, std::string> const kDescr{{"<f4", "float32"}, {"<f2", "float16"}, {"<i4", "int32"}, {"<i8", "int64"},
                                                {"|i1", "int8"},    {"|u1", "uint8"},   {"|b1", "bool"},  {"<f8", "float64"}};
constexpr std::size_t kMostDigits = 18;          // of a size: what 64 bits hold
constexpr std::size_t kLongestHeader = 10'000;  // bytes, as numpy reads of a file that nobody vouches for
constexpr std::size_t kMostDimensions = 64;     // of numpy's arrays

[[noreturn]] void not_npy(std::filesystem::path const& path, std::string const& why) {
    throw Error("feed-dtype", path.string() + " is not an array that can be fed: " + why);
}

// The header of a .npy file: a Python dict of a string, a bool and a tuple of ints.
class Description {
public:
    Description(std::string const& text, std::filesystem::path const& path) : text_(text), path_(path) {}

    Array read() {
        take('{');
        while (next() != '}') {
            std::string const key = string();
            take(':');
            if (key == "descr") descr();
            else if (key == "fortran_order") order();
            else if (key == "shape") shape();
            else not_npy(path_, "its header has a " + key);
            if (next() != '}') take(',');
        }
        take('}');
        next();
        if (at_ != text_.size()) not_npy(path_, "its header is damaged");
        for (char const* key : {"descr", "fortran_order", "shape"})
            if (!seen_.count(key)) not_npy(path_, std::string("it has no ") + key);
        return std::move(array_);
    }

private:
    char next() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }

    void take(char letter) {
        if (next() != letter) not_npy(path_, "its header is damaged");
        ++at_;
    }

    bool word(std::string const& wanted) {
        next();
        if (text_.compare(at_, wanted.size(), wanted) != 0) return false;
        at_ += wanted.size();
        return true;
    }

    std::string string() {
        char const quote = next();
        if (quote != '\'' && quote != '"') not_npy(path_, "its header is damaged");
        auto const end = text_.find(quote, at_ + 1);
        if (end == std::string::npos) not_npy(path_, "its header is damaged");
        auto const from = std::exchange(at_, end + 1) + 1;
        return text_.substr(from, end - from);
    }

    void descr() {
        if (next() == '[') not_npy(path_, "it has fields");
        auto const text = string();
        auto const found = kDescr.find(text);
        if (found == kDescr.end()) not_npy(path_, "its type is " + text);
        array_.dtype = found->second;
        seen_["descr"] = true;
    }

    void order() {
        if (word("True")) not_npy(path_, "it is in Fortran's order");
        if (!word("False")) not_npy(path_, "its header is damaged");
        seen_["fortran_order"] = true;
    }

    void shape() {
        array_.shape.clear();
        take('(');
        while (next() != ')') {
            std::int64_t size = 0;
            auto const from = at_;
            for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
                if (at_ - from >= kMostDigits) not_npy(path_, "its shape is too large");
                size = size * 10 + (text_[at_] - '0');
            }
            bool const zeros = at_ - from > 1 && text_[from] == '0';  // 02 is no number in Python
            if (at_ == from || zeros) not_npy(path_, "its header is damaged");
            array_.shape.push_back(size);
            if (array_.shape.size() > kMostDimensions) not_npy(path_, "it has more than 64 dimensions");
            if (array_.shape.size() == 1 || next() != ')') take(',');  // (2) is no tuple
        }
        take(')');
        seen_["shape"] = true;
    }

    std::string const& text_;
    std::filesystem::path const& path_;
    std::size_t at_ = 0;
    Array array_;
    std::map<std::string, bool> seen_;
};

}  // namespace

Array read_npy(std::filesystem::path const& path) try {
    Input file(path, "feed-name", "there is no array");
    if (file.left() < 12) not_npy(path, "it is no .npy file");
    auto const start = file.read(8);
    if (start.compare(0, 6, "\x93NUMPY") != 0) not_npy(path, "it is no .npy file");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0) not_npy(path, "it is of a version of the format that is not known");
    auto const digits = file.read(start[6] == 1 ? 2 : 4);
    std::size_t length = 0;
    for (auto i = digits.size(); i-- > 0;) length = length << 8 | static_cast<unsigned char>(digits[i]);
    if (length > kLongestHeader) not_npy(path, "its header has " + std::to_string(length) + " bytes");
    if (file.left() < length) not_npy(path, "it is truncated");
    std::string const header = file.read(length);
    Array array = Description(header, path).read();
    auto const bytes = byte_count(array.shape, array.dtype);
    if (bytes < 0) not_npy(path, "its shape " + text_of(array.shape) + " is too large");
    if (file.left() != static_cast<std::uint64_t>(bytes))
        not_npy(path, "it has " + std::to_string(file.left()) + " bytes of data, not " + std::to_string(bytes));
    array.data = file.rest();
    return array;
} catch (...) {
    rethrow();
}

void write_npy(std::filesystem::path const& path, Array const& array) try {
    std::string descr;
    for (auto const& [text, dtype] : kDescr)
        if (dtype == array.dtype) descr = text;
    if (descr.empty()) throw Error("feed-dtype", "numpy has no " + array.dtype);
    if (array.shape.size() > kMostDimensions) throw Error("feed-dtype", "numpy has no arrays of " + std::to_string(array.shape.size()) + " dimensions");
    if (byte_count(array.shape, array.dtype) != static_cast<std::int64_t>(array.data.size()))
        throw Error("usage", "an array of shape " + text_of(array.shape) + " has not " + std::to_string(array.data.size()) + " bytes of " + array.dtype);
    std::string shape;
    for (auto size : array.shape) shape += std::to_string(size) + ",";
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
    header += '\n';
    std::string start("\x93NUMPY\x01\x00", 8);
    start += static_cast<char>(header.size() & 255);
    start += static_cast<char>(header.size() >> 8);
    write_file(path, kArrayFile, {start, header, array.data});
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
