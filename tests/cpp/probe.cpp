// What tests/test_cpp.py asks of the C++ library beyond run_engine.
#include <iostream>

#include "trtdsl_engine.hpp"

int main(int count, char** values) {
    std::string const what = count > 1 ? values[1] : "";
    try {
        if (what == "codes") {
            for (auto const& [code, exit_code] : trtdsl::error_codes()) std::cout << code << " " << exit_code << "\n";
        } else if (what == "sha256") {
            std::string const data((std::istreambuf_iterator<char>(std::cin)), {});
            std::cout << trtdsl::sha256(data) << "\n";
        } else if (what == "npy") {
            trtdsl::write_npy(values[3], trtdsl::read_npy(values[2]));
        } else if (what == "library") {
            trtdsl::check_library(values[2], values[3]);
        } else if (what == "version") {
            trtdsl::check_version(values[2], {"tensorrt", values[3]}, std::string(values[4]) == "1", "");
        } else if (what == "capability") {
            trtdsl::Manifest manifest;
            manifest.compute_capabilities = {"8.6", "8.9"};
            trtdsl::check_compute_capability(manifest, {}, values[2]);
        } else if (what == "judge") {  // PRODUCT VERSION, then one engine after another on stdin
            std::string path;
            while (std::getline(std::cin, path)) {
                try {
                    trtdsl::open_engine(path, {values[2], values[3]});
                    std::cout << "fine\n";
                } catch (trtdsl::Error const& error) {
                    std::cout << error.code() << "\n";
                }
            }
        }
    } catch (trtdsl::Error const& error) {
        std::cerr << error.code() << ": " << error.what() << "\n";
        return error.exit_code();
    }
}
