#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>

#include "internal.hpp"

#ifndef _WIN32
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace trtdsl {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongest = 255;  // bytes of a file's name that every file system here takes
constexpr std::size_t kPiece = 1 << 16;

Error unwritable(fs::path const& path, std::string const& why) {
    return Error("usage", "cannot write " + path.string() + ": " + why);
}

std::string unguessable() {
    std::random_device random;
    std::string name = ".trtdsl-";
    for (int i = 0; i < 4; ++i) {
        auto word = random();
        for (int digit = 0; digit < 8; ++digit, word >>= 4) name += "0123456789abcdef"[word & 15];
    }
    return name + ".tmp";
}

// A new file for writing, which is removed unless it is renamed. "x" refuses a name that is there, a link too.
class Temporary {
public:
    explicit Temporary(fs::path const& target) : target_(target) {
        for (int attempt = 0; attempt < 16 && !file_; ++attempt) {
            path_ = target.parent_path() / unguessable();
            file_ = std::fopen(path_.string().c_str(), "wbx");
            if (!file_ && errno != EEXIST) break;
        }
        if (!file_) throw unwritable(target, std::strerror(errno));
    }

    Temporary(Temporary const&) = delete;
    Temporary& operator=(Temporary const&) = delete;

    ~Temporary() {
        if (file_) std::fclose(file_);
        std::error_code ignored;
        if (!renamed_) fs::remove(path_, ignored);
    }

    void write(std::string const& data) {
        bool fine = std::fwrite(data.data(), 1, data.size(), file_) == data.size() && std::fflush(file_) == 0;
#ifndef _WIN32
        struct stat there {};
        if (stat(target_.c_str(), &there) == 0) fine = fine && fchmod(fileno(file_), there.st_mode & 07777) == 0;
        fine = fine && fsync(fileno(file_)) == 0;
#endif
        int const reason = errno;
        fine = std::fclose(std::exchange(file_, nullptr)) == 0 && fine;
        if (!fine) throw unwritable(target_, std::strerror(reason));
    }

    void rename() {
        std::error_code error;
        fs::rename(path_, target_, error);
        if (error) throw unwritable(target_, error.message());
        renamed_ = true;
#ifndef _WIN32
        auto const folder = target_.parent_path();
        int const descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (descriptor < 0) return;
        fsync(descriptor);  // some file systems have none for folders
        close(descriptor);
#endif
    }

private:
    fs::path target_, path_;
    std::FILE* file_ = nullptr;
    bool renamed_ = false;
};

// The file that is written for a path: a link stays one.
fs::path regular(fs::path const& path) {
    std::error_code error;
    auto const target = fs::is_symlink(path, error) ? fs::weakly_canonical(path, error) : path;
    if (error && error != std::errc::no_such_file_or_directory) throw unwritable(path, error.message());
    if (fs::exists(target, error) && !fs::is_regular_file(target, error)) throw unwritable(path, "it is not a regular file");
    return target;
}

}  // namespace

std::string read_file(fs::path const& path, char const* code, std::string const& what) {
    std::error_code ignored;
    std::ifstream file(path, std::ios::binary);
    if (!file || fs::is_directory(path, ignored)) throw Error(code, what + " " + path.string());
    std::string data;
    try {
        while (file) {
            auto const before = data.size();
            data.resize(before + kPiece);
            file.read(&data[before], kPiece);
            data.resize(before + static_cast<std::size_t>(file.gcount()));
        }
    } catch (std::exception const&) {  // no memory for it
        throw Error(code, path.string() + " is too large to be read");
    }
    if (file.bad()) throw Error(code, path.string() + " cannot be read");
    return data;
}

void write_file(fs::path const& path, std::string const& data) {
    Temporary file(regular(path));
    file.write(data);
    file.rename();
}

std::string file_name(std::string const& name, std::string const& suffix) try {
    std::string reason;
    if (name.empty() || name == "." || name == "..") reason = "is no file's name";
#ifdef _WIN32
    else if (name.find_first_of("/\\:") != std::string::npos) reason = "would lead to another place";
#else
    else if (name.find_first_of("/\\") != std::string::npos) reason = "would lead to another place";
#endif
    else if (name.size() + suffix.size() > kLongest) reason = "is too long for a file's name";
    for (unsigned char letter : name)
        if (letter < 0x20 || letter == 0x7f) reason = "has characters that cannot be printed";
    if (!reason.empty()) throw Error("usage", "the name '" + name.substr(0, 60) + "' " + reason + ", and a file would be called after it");
    return name + suffix;
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
