#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "internal.hpp"

#ifndef _WIN32
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace trtdsl {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongest = 255;  // bytes of a file's name that every file system here takes
constexpr int kMostLinks = 40;           // in a row
constexpr std::size_t kHead = 4096;      // bytes by which a kind is known

Error unwritable(fs::path const& path, std::string const& why) {
    return Error("usage", "cannot write " + path.string() + ": " + why);
}

// Throws for a name that the operating system would cut, and so take for another file's.
void check_name(fs::path const& path, char const* code) {
    if (path.native().find(fs::path::value_type()) != fs::path::string_type::npos) throw Error(code, path.string() + " has a NUL, which no file's name has");
}

// Temporary files of a target begin with this: trtdsl/core/files/writing.py gives the same names, and removes what is left of them.
std::string temporary_prefix(fs::path const& target) {
    auto const name = target.filename().u8string();
    return ".trtdsl-" + sha256(std::string(name.begin(), name.end())).substr(0, 12) + "-";
}

std::string unguessable() {
    std::random_device random;
    std::string name;
    for (int i = 0; i < 2; ++i) {
        auto word = random();
        for (int digit = 0; digit < 8; ++digit, word >>= 4) name += "0123456789abcdef"[word & 15];
    }
    return name;
}

bool is_temporary(std::string const& name, std::string const& prefix) {
    return name.rfind(prefix, 0) == 0 && name.size() >= 4 && name.compare(name.size() - 4, 4, ".tmp") == 0;
}

// Removes the files of writers that were killed: a lock ends with its process.
#ifndef _WIN32
void remove_abandoned(fs::path const& folder, std::string const& prefix) {
    // Not by std::filesystem, whose iterators end the program where there is no memory for a name.
    std::unique_ptr<DIR, int (*)(DIR*)> const entries(opendir(folder.empty() ? "." : folder.c_str()), closedir);
    while (auto const* const entry = entries ? readdir(entries.get()) : nullptr) {
        std::string const name = entry->d_name;
        if (!is_temporary(name, prefix)) continue;
        auto const path = folder / name;
        int const descriptor = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (descriptor < 0) continue;
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
        close(descriptor);
    }
}
#else
void remove_abandoned(fs::path const& folder, std::string const& prefix) {
    std::error_code error;
    for (fs::directory_iterator each(folder.empty() ? "." : folder, error), end; !error && each != end; each.increment(error)) {
        std::error_code ignored;  // an open file cannot be removed
        if (is_temporary(each->path().filename().string(), prefix)) fs::remove(each->path(), ignored);
    }
}
#endif

// A new file for writing, locked while its writer lives, which is removed unless it is renamed. "x" and O_EXCL refuse a
// name that is there, a link too.
class Temporary {
public:
    explicit Temporary(fs::path const& target) : target_(target) {
        auto const prefix = temporary_prefix(target);
        remove_abandoned(target.parent_path(), prefix);
        for (int attempt = 0; attempt < 16 && !file_; ++attempt) {
            path_ = target.parent_path() / (prefix + unguessable() + ".tmp");
            file_ = create(path_);
            if (!file_ && errno != EEXIST) break;
        }
        if (!file_) throw unwritable(target, std::strerror(errno));
    }

    Temporary(Temporary const&) = delete;
    Temporary& operator=(Temporary const&) = delete;

    ~Temporary() {
        if (file_) static_cast<void>(std::fclose(file_));
        std::error_code ignored;
        if (!renamed_) fs::remove(path_, ignored);
    }

    void write(std::initializer_list<std::string_view> parts) {
        for (auto const part : parts) check(std::fwrite(part.data(), 1, part.size(), file_) == part.size());
        check(std::fflush(file_) == 0);
#ifndef _WIN32
        struct stat there {};
        if (stat(target_.c_str(), &there) == 0) check(fchmod(fileno(file_), there.st_mode & 07777) == 0);
        check(fsync(fileno(file_)) == 0);
#endif
    }

    void rename() {
        std::error_code error;
#ifdef _WIN32  // an open file cannot be renamed there
        check(std::fclose(std::exchange(file_, nullptr)) == 0);
#endif
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
    void check(bool done) const {
        if (!done) throw unwritable(target_, std::strerror(errno));
    }

    // nullptr, and errno, where it fails: EEXIST also where the file was taken for an abandoned one before it was locked.
    static std::FILE* create(fs::path const& path) {
#ifdef _WIN32
        return std::fopen(path.string().c_str(), "wbx");
#else
        int const descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0) return nullptr;
        struct stat there {};
        bool const locked = flock(descriptor, LOCK_EX) == 0;  // there are file systems without locks
        if (locked && fstat(descriptor, &there) == 0 && there.st_nlink == 0) return close(descriptor), errno = EEXIST, nullptr;
        auto* const file = fdopen(descriptor, "wb");
        if (!file) close(descriptor), unlink(path.c_str()), errno = ENOMEM;
        return file;
#endif
    }

    fs::path target_, path_;
    std::FILE* file_ = nullptr;
    bool renamed_ = false;
};

// The file that is written for a path: a link stays one, also where it leads to a file that is not there yet.
fs::path regular(fs::path const& path) {
    check_name(path, "usage");
    std::error_code error;
    auto target = path;
    for (int links = 0; fs::is_symlink(target, error); ++links) {
        if (links == kMostLinks) throw unwritable(path, std::make_error_code(std::errc::too_many_symbolic_link_levels).message());
        target = target.parent_path() / fs::read_symlink(target, error);
        if (error) break;
    }
    if (error && error != std::errc::no_such_file_or_directory) throw unwritable(path, error.message());
    if (fs::exists(target, error) && !fs::is_regular_file(target, error)) throw unwritable(path, "it is not a regular file");
    return target;
}

}  // namespace

Input::Input(fs::path const& path, char const* code, std::string const& missing) : path_(path), code_(code) {
    check_name(path, code);
    std::error_code error;
    auto const kind = fs::status(path, error).type();
    if (kind == fs::file_type::fifo || kind == fs::file_type::socket || kind == fs::file_type::character || kind == fs::file_type::block)
        throw Error(code, path.string() + " is not a regular file");  // which could keep its reader waiting for ever
    file_.open(path, std::ios::binary);
    auto const size = fs::file_size(path, error);
    if (!file_ || kind != fs::file_type::regular || error) throw Error(code, missing + " " + path.string());
    left_ = size;
}

void Input::read(char* target, std::size_t size) {
    file_.read(target, static_cast<std::streamsize>(size));
    if (static_cast<std::size_t>(file_.gcount()) != size) throw Error(code_, path_.string() + " cannot be read");
    left_ -= size;
}

std::string Input::read(std::size_t size) {
    std::string data;
    resize(data, size);
    read(data.data(), size);
    return data;
}

std::string Input::rest(std::uint64_t most) {
    if (left_ > most) throw Error(code_, path_.string() + " is larger than the " + std::to_string(most >> 20) + " MiB that such a file may have");
    if (left_ > std::string().max_size()) throw Error(code_, path_.string() + " is too large to be read");
    return read(static_cast<std::size_t>(left_));
}

FileKind const kArrayFile{"an array", "\x93NUMPY", ""}, kCacheFile{"a runtime cache", "{\"bytes\": ", "\"kind\": \"trtdsl-runtime-cache\"", true};

void check_kind(fs::path const& path, FileKind const& kind) {
    check_name(path, "usage");
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return;
    // No more than the file says that it has: some of Linux's have their reader wait.
    std::string head(static_cast<std::size_t>(std::min<std::uintmax_t>(fs::file_size(path, error), kHead)), '\0');
    std::ifstream file(path, std::ios::binary);
    bool const opened = file.is_open();
    head.resize(static_cast<std::size_t>(file.read(head.data(), static_cast<std::streamsize>(head.size())).gcount()));
    bool const is_kind = head.rfind(kind.head, 0) == 0 && head.find(kind.mark) != std::string::npos;
    bool const is_lost = kind.may_be_zeros && head.find_first_not_of('\0') == std::string::npos;
    if (!opened || !(head.empty() || is_kind || is_lost)) throw unwritable(path, "the file that is there is not " + kind.label + ", and would be replaced by one: give another name, or remove it");
}

void write_file(fs::path const& path, FileKind const& kind, std::initializer_list<std::string_view> parts) {
    auto const target = regular(path);
    check_kind(target, kind);
    Temporary file(target);
    file.write(parts);
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
    else if (!is_printable(name)) reason = "has characters that cannot be printed";
    if (!reason.empty()) throw Error("usage", "the name '" + name + "' " + reason + ", and a file would be called after it");
    return name + suffix;
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
