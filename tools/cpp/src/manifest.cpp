#include "internal.hpp"
#include "json.hpp"

namespace trtdsl {

namespace {

std::map<std::string, std::size_t> const kItemSizes{
    {"float32", 4}, {"float16", 2}, {"bfloat16", 2}, {"int8", 1},          {"int32", 4},
    {"int64", 8},   {"bool", 1},    {"uint8", 1},    {"float8_e4m3fn", 1}, {"int4", 1},
    {"float4_e2m1fn_x2", 1},        {"float8_e8m0fnu", 1}};

TensorInfo read_tensor(std::string const& name, Reader const& reader) {
    TensorInfo info{name, reader.text("dtype"), {}};
    if (!kItemSizes.count(info.dtype)) throw reader.wrong("dtype", "a dtype that TensorRT has");
    for (auto const& item : reader.list("shape")) {
        if (auto const* size = std::get_if<std::int64_t>(&item.value); size && *size >= 0)
            info.shape.push_back(*size);
        else if (std::holds_alternative<std::string>(item.value))
            info.shape.push_back(-1);
        else
            throw reader.wrong("shape", "sizes of 0 or more, and text for dynamic ones");
    }
    if (info.shape.size() > 8) throw reader.wrong("shape", "a list of at most 8 sizes");
    return info;
}

Range read_range(Reader const& reader, std::size_t rank) {
    Range range{reader.sizes("min", rank), reader.sizes("opt", rank), reader.sizes("max", rank)};
    for (std::size_t axis = 0; axis < rank; ++axis)
        if (range.min[axis] > range.opt[axis] || range.opt[axis] > range.max[axis])
            throw Error("manifest-damaged", reader.label() + ": " + reader.path() + " must have min <= opt <= max");
    return range;
}

Signature read_signature(Reader const& reader) {
    Signature signature;
    auto const inputs = reader.at("inputs"), outputs = reader.at("outputs");
    for (auto const& [name, json] : inputs.object()) signature.inputs.push_back(read_tensor(name, inputs.at(name)));
    for (auto const& [name, json] : outputs.object()) signature.outputs.push_back(read_tensor(name, outputs.at(name)));
    for (auto const& item : reader.list("profiles")) {
        auto const shapes = Reader(&item, reader.label(), "profiles").at("inputs");
        std::map<std::string, Range> profile;
        for (auto const& info : signature.inputs)
            profile[info.name] = read_range(shapes.at(info.name), info.shape.size());
        signature.profiles.push_back(profile);
    }
    if (signature.profiles.empty()) throw reader.wrong("profiles", "a list of at least one");
    return signature;
}

}  // namespace

Manifest parse_manifest(std::string const& text, std::string const& label) {
    Json const json = parse_json(text, label);
    Reader const reader(&json, label, "");
    if (auto const schema = reader.size("schema"); schema != 2 && schema != 3)
        throw Error("manifest-damaged",
                    label + " has schema " + std::to_string(schema) + ", and this program reads 2 and 3");
    auto const backend = reader.at("backend"), engine = reader.at("engine");
    Manifest manifest;
    manifest.network = reader.text("network");
    manifest.product = backend.text("name");
    manifest.version = backend.text("version");
    if (manifest.product != "tensorrt" && manifest.product != "tensorrt-rtx")
        throw backend.wrong("name", "tensorrt or tensorrt-rtx");
    manifest.sha256 = engine.text("sha256");
    if (manifest.sha256.size() != 64 || manifest.sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
        throw engine.wrong("sha256", "64 hexadecimal digits");
    manifest.size = engine.size("bytes");
    manifest.compute_capabilities = reader.strings("compute_capabilities");
    manifest.signature = read_signature(reader);
    if (reader.find("config")) {
        auto const config = reader.at("config");
        manifest.version_compatible = config.flag("version_compatible");
        manifest.stripped = config.flag("strip_weights");
    }
    if (reader.find("refit") && reader.at("refit").find("weights"))
        manifest.weights = reader.at("refit").strings("weights");
    return manifest;
}

std::size_t item_size(std::string const& dtype) { return dtype == "float64" ? 8 : kItemSizes.at(dtype); }

}  // namespace trtdsl
