#include <algorithm>
#include <array>
#include <utility>

#include "internal.hpp"

namespace trtdsl {

namespace {

// A type as numpy writes it, little-endian, by one letter, which it reads too, and by torch's name.
struct Type {
    std::string descr;
    char letter;
    std::string dtype;
};
std::array<Type, 8> const kTypes{{{"<f4", 'f', "float32"}, {"<f2", 'e', "float16"}, {"<i4", 'i', "int32"}, {"<i8", 'q', "int64"},
                                  {"|i1", 'b', "int8"},    {"|u1", 'B', "uint8"},   {"|b1", '?', "bool"},  {"<f8", 'd', "float64"}}};
constexpr std::size_t kMostDigits = 18;          // of a size: what 64 bits hold
constexpr std::size_t kLongestHeader = 10'000;  // bytes, as numpy reads of a file that nobody vouches for
constexpr std::size_t kMostDimensions = 64;     // of numpy's arrays

[[noreturn]] void not_npy(std::filesystem::path const& path, std::string const& why) {
    throw Error("input-damaged", path.string() + " is not an array that can be fed: " + why);
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

    bool is_fortran() const { return fortran_; }

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
        auto const plain = text.substr(text.find_first_of("<=|") == 0 ? 1 : 0);  // in the order of this machine's bytes
        auto const found = std::find_if(kTypes.begin(), kTypes.end(), [&](Type const& type) {
            return text == type.dtype || plain == type.descr.substr(1) || plain == std::string(1, type.letter);
        });
        if (found == kTypes.end()) not_npy(path_, "its type is " + text + ": save it with one of " + descriptions());
        array_.dtype = found->dtype;
        seen_["descr"] = true;
    }

    static std::string descriptions() {
        std::string all;
        for (auto const& type : kTypes) all += (all.empty() ? "" : ", ") + type.descr;
        return all;
    }

    void order() {
        fortran_ = word("True");
        if (!fortran_ && !word("False")) not_npy(path_, "its header is damaged");
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
    bool fortran_ = false;
    std::map<std::string, bool> seen_;
};

// The elements of an array that has them in Fortran's order.
std::string in_c_order(Array const& array) {
    auto const item = item_size(array.dtype);
    std::vector<std::size_t> strides, index(array.shape.size());
    std::size_t stride = item, from = 0;
    for (auto size : array.shape) strides.push_back(std::exchange(stride, stride * static_cast<std::size_t>(size)));
    std::string data;
    resize(data, array.data.size());
    for (std::size_t to = 0; to < data.size(); to += item) {
        std::copy_n(&array.data[from], item, &data[to]);
        for (auto axis = index.size(); axis-- > 0;) {
            from += strides[axis];
            if (++index[axis] < static_cast<std::size_t>(array.shape[axis])) break;
            from -= strides[axis] * std::exchange(index[axis], 0);
        }
    }
    return data;
}

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
    Description description(header, path);
    Array array = description.read();
    auto const bytes = byte_count(array.shape, array.dtype);
    if (bytes < 0) not_npy(path, "its shape " + text_of(array.shape) + " is too large");
    if (file.left() != static_cast<std::uint64_t>(bytes))
        not_npy(path, "it has " + std::to_string(file.left()) + " bytes of data, not " + std::to_string(bytes));
    array.data = file.rest();
    if (description.is_fortran()) array.data = in_c_order(array);
    return array;
} catch (...) {
    rethrow();
}

void write_npy(std::filesystem::path const& path, Array const& array) try {
    std::string descr;
    for (auto const& type : kTypes)
        if (type.dtype == array.dtype) descr = type.descr;
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
