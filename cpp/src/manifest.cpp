#include <algorithm>

#include "internal.hpp"
#include "json.hpp"

namespace trtdsl {

namespace {

std::map<std::string, std::size_t> const kItemSizes{
    {"float32", 4}, {"float16", 2}, {"bfloat16", 2}, {"int8", 1},          {"int32", 4},
    {"int64", 8},   {"bool", 1},    {"uint8", 1},    {"float8_e4m3fn", 1}, {"int4", 1},
    {"float4_e2m1fn_x2", 1},        {"float8_e8m0fnu", 1}};

TensorInfo read_tensor(std::string const& name, Reader const& reader) {
    TensorInfo info{name, reader.text("dtype"), {}, false};
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
    info.channels_last = reader.has("format");
    if (info.channels_last && (reader.text("format") != "channels_last" || (info.shape.size() != 4 && info.shape.size() != 5)))
        throw reader.wrong("format", "\"channels_last\", of 4 or 5 dimensions, or null");
    return info;
}

Range read_range(Reader const& reader, std::size_t rank) {
    Range range{reader.sizes("min", rank), reader.sizes("opt", rank), reader.sizes("max", rank)};
    for (std::size_t axis = 0; axis < rank; ++axis)
        if (range.min[axis] > range.opt[axis] || range.opt[axis] > range.max[axis])
            throw Error("manifest-damaged", reader.label() + ": " + reader.path() + " must have min <= opt <= max");
    return range;
}

// How deep a size may be, as trtdsl/engine/loading/requirements.py has it.
constexpr int kDeepest = 64;

std::optional<Expression> read_expression(Json const& json, std::map<std::string, Place> const& dims, int depth) {
    if (auto const* name = std::get_if<std::string>(&json.value))
        return dims.count(*name) ? std::optional(Expression{*name, 0, {}}) : std::nullopt;
    if (auto const* number = std::get_if<std::int64_t>(&json.value)) return Expression{{}, *number, {}};
    auto const* list = std::get_if<List>(&json.value);
    auto const* word = list && list->size() >= 3 ? std::get_if<std::string>(&list->front().value) : nullptr;
    if (!word || depth == 0) return std::nullopt;
    bool const many = *word == "+" || *word == "*";
    if (!many && ((*word != "//" && *word != "max" && *word != "min") || list->size() != 3)) return std::nullopt;
    Expression expression{*word, 0, {}};
    for (std::size_t index = 1; index < list->size(); ++index) {
        auto part = read_expression((*list)[index], dims, depth - 1);
        if (!part) return std::nullopt;
        expression.parts.push_back(std::move(*part));
    }
    return expression;
}

Place read_place(Reader const& reader, std::vector<TensorInfo> const& inputs) {
    Place place{reader.text("input"), reader.size("axis"), static_cast<std::int64_t>(reader.size("factor")), 0};
    auto const found = std::find_if(inputs.begin(), inputs.end(), [&](auto const& info) { return info.name == place.input; });
    if (found == inputs.end() || place.axis >= found->shape.size()) throw reader.wrong("axis", "a dimension of an input");
    if (place.factor == 0) throw reader.wrong("factor", "1 or more");
    place.offset = reader.get<std::int64_t>("offset", "a number");
    return place;
}

Requirement read_requirement(Reader const& reader, std::vector<TensorInfo> const& inputs) {
    Requirement requirement;
    requirement.condition = reader.text("condition");
    if (reader.find("why")) requirement.why = reader.text("why");
    auto const dims = reader.at("dims");
    for (auto const& [name, json] : dims.object()) requirement.dims[name] = read_place(dims.at(name), inputs);
    auto const wrong = [&] { return reader.wrong("expression", "a comparison of sizes"); };
    auto const& parts = reader.list("expression");
    auto const* comparison = parts.size() == 3 ? std::get_if<std::string>(&parts[0].value) : nullptr;
    static std::vector<std::string> const known{"==", "!=", "<", "<=", ">", ">="};
    if (!comparison || std::find(known.begin(), known.end(), *comparison) == known.end()) throw wrong();
    auto const left = read_expression(parts[1], requirement.dims, kDeepest);
    auto const right = read_expression(parts[2], requirement.dims, kDeepest);
    if (!left || !right) throw wrong();
    requirement.comparison = *comparison, requirement.left = *left, requirement.right = *right;
    return requirement;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// Two to four numbers and a suffix: what trtdsl/engine/loading/manifest.py takes for a version.
bool is_version(std::string const& text) {
    std::size_t at = 0;
    auto const number = [&] {
        std::size_t const from = at;
        while (at < text.size() && is_digit(text[at]) && at - from < 9) ++at;
        return at > from;
    };
    if (!number()) return false;
    int numbers = 1;
    for (; numbers < 4 && at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1]); ++numbers) ++at, number();
    if (numbers == 1) return false;
    if (at == text.size()) return true;
    if (std::string(".+-").find(text[at]) != std::string::npos && at + 1 < text.size()) ++at;
    std::string const known = "0123456789.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return text.size() - at <= 40 && text.find_first_not_of(known, at) == std::string::npos;
}

// What the engine needs of TensorRT's registry; TensorRT itself says which is missing.
void check_plugins(Reader const& reader) {
    if (!reader.find("plugins")) return;
    for (auto const& item : reader.list("plugins")) {
        Reader const plugin(&item, reader.label(), "plugins");
        plugin.text("name"), plugin.text("version");
        if (plugin.find("namespace")) plugin.text("namespace");
    }
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
    if (reader.find("requirements"))
        for (auto const& item : reader.list("requirements"))
            signature.requirements.push_back(read_requirement(Reader(&item, reader.label(), "requirements"), signature.inputs));
    if (signature.profiles.empty()) throw reader.wrong("profiles", "a list of at least one");
    return signature;
}

// Any number of JSON's.
std::optional<double> number(Json const& json) {
    if (auto const* whole = std::get_if<std::int64_t>(&json.value)) return static_cast<double>(*whole);
    auto const* real = std::get_if<double>(&json.value);
    return real ? std::optional(*real) : std::nullopt;
}

Precisions read_precisions(Reader const& reader) {
    Precisions precisions;
    auto const calls = reader.at("calls");
    for (auto const& [name, json] : calls.object()) precisions.calls[name] = calls.count(name);
    if (reader.has("file")) precisions.file = reader.text("file");
    if (reader.has("sha256")) precisions.sha256 = reader.text("sha256");
    if (reader.find("data")) precisions.data = reader.text("data");
    if (!reader.find("sqnr")) return precisions;
    auto const sqnr = reader.at("sqnr");
    for (auto const& [name, json] : sqnr.object()) {
        auto const decibels = number(json);
        if (!decibels && sqnr.has(name)) throw sqnr.wrong(name, "a number or null");
        precisions.sqnr[name] = decibels;
    }
    return precisions;
}

// [file, within, operation, function, ordinal, dtype, [scale, …]]
CallPrecision read_call(Json const& json, Reader const& refit) {
    auto const* row = std::get_if<List>(&json.value);
    auto const wrong = [&] { return refit.wrong("precisions", "a list of calls with a dtype and scales"); };
    auto const text = [&](std::size_t index) {
        auto const* found = std::get_if<std::string>(&(*row)[index].value);
        if (!found) throw wrong();
        return *found;
    };
    auto const* ordinal = row && row->size() == 7 ? std::get_if<std::int64_t>(&(*row)[4].value) : nullptr;
    auto const* scales = ordinal ? std::get_if<List>(&(*row)[6].value) : nullptr;
    if (!scales) throw wrong();
    CallPrecision call{text(0), text(1), text(2), text(5), *ordinal, {}};
    for (auto const& each : *scales) {
        auto const scale = number(each);
        if (!scale) throw wrong();
        call.scales.push_back(*scale);
    }
    return call;
}

// Of each state, which is an input, the output that is like it.
std::map<std::string, std::string> read_states(Reader const& reader) {
    std::map<std::string, std::string> states;
    if (!reader.find("states")) return states;
    auto const named = reader.at("states"), inputs = reader.at("inputs"), outputs = reader.at("outputs");
    for (auto const& [name, json] : named.object()) {
        auto const output = states[name] = named.text(name);
        auto const wrong = named.wrong(name, "an input that is like its output, which is no other state's");
        bool const taken = std::count_if(states.begin(), states.end(), [&](auto const& state) { return state.second == output; }) > 1;
        if (!inputs.find(name) || !outputs.find(output) || taken) throw wrong;
        for (auto const* key : {"dtype", "shape"})
            if (!(*inputs.at(name).find(key) == *outputs.at(output).find(key))) throw wrong;
    }
    return states;
}

// Of each state that has a slot for each token, the dimension of them: without the entry, the last but one.
std::map<std::string, std::int64_t> read_slots(Reader const& reader, Manifest const& manifest) {
    std::map<std::string, std::int64_t> ranks, slots;
    for (auto const& info : manifest.signature.inputs)
        if (manifest.states.count(info.name)) ranks[info.name] = static_cast<std::int64_t>(info.shape.size());
    if (!reader.has("slots")) {
        for (auto const& [name, rank] : ranks)
            if (rank > 2) slots[name] = rank - 2;
        return slots;
    }
    auto const named = reader.at("slots");
    for (auto const& [name, json] : named.object()) {
        auto const axis = slots[name] = static_cast<std::int64_t>(named.size(name));
        if (!ranks.count(name) || axis < 1 || axis >= ranks[name]) throw named.wrong(name, "a dimension of a state, after the first");
    }
    return slots;
}

Refit read_refit(Reader const& reader) {
    Refit refit{reader.text("structure_sha256"), reader.text("values_sha256"), reader.flag("identical"), {}};
    if (reader.find("precisions"))
        for (auto const& item : reader.list("precisions")) refit.calls.push_back(read_call(item, reader));
    auto const values = reader.at("values");
    for (auto const& [name, json] : values.object()) {
        auto const& pair = values.list(name);
        auto const* count = pair.size() == 2 ? std::get_if<std::int64_t>(&pair[0].value) : nullptr;
        auto const* dtype = pair.size() == 2 ? std::get_if<std::string>(&pair[1].value) : nullptr;
        if (!count || *count < 0 || !dtype) throw values.wrong(name, "a number of elements and a dtype");
        refit.values[name] = {*count, *dtype};
    }
    return refit;
}

}  // namespace

Manifest parse_manifest(std::string const& text, std::string const& label) try {
    Json const json = parse_json(text, label, "manifest");
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
    if (!is_version(manifest.version)) throw backend.wrong("version", "a version, such as 1.7.1.116");
    check_plugins(reader);
    manifest.sha256 = engine.text("sha256");
    if (manifest.sha256.size() != 64 || manifest.sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
        throw engine.wrong("sha256", "64 hexadecimal digits");
    manifest.size = engine.size("bytes");
    manifest.compute_capabilities = reader.strings("compute_capabilities");
    manifest.signature = read_signature(reader);
    manifest.states = read_states(reader);
    manifest.slots = read_slots(reader, manifest);
    if (reader.find("precision")) manifest.precision = reader.text("precision");
    if (reader.has("precisions")) manifest.precisions = read_precisions(reader.at("precisions"));
    if (reader.find("config")) {
        auto const config = reader.at("config");
        manifest.version_compatible = config.flag("version_compatible");
        manifest.stripped = config.flag("strip_weights");
    }
    if (reader.find("settings")) {
        auto const settings = reader.at("settings");
        auto const whole = [&](char const* name) {
            auto const* const value = settings.find(name);
            auto const* const number = value ? std::get_if<std::int64_t>(&value->value) : nullptr;
            return number ? std::optional(*number) : std::nullopt;
        };
        auto const rank = whole("rank"), ranks = whole("ranks");
        if (rank && ranks) manifest.rank = *rank, manifest.ranks = *ranks;
    }
    if (reader.find("refit")) {
        auto const refit = reader.at("refit");
        if (refit.find("weights")) manifest.weights = refit.strings("weights");
        if (refit.find("values")) manifest.refit = read_refit(refit);
    }
    return manifest;
} catch (...) {
    rethrow();
}

std::size_t item_size(std::string const& dtype) {
    if (dtype == "float64") return 8;
    if (dtype == "int16") return 2;
    if (dtype == "float8_e5m2") return 1;
    auto const found = kItemSizes.find(dtype);
    if (found == kItemSizes.end()) throw Error("feed-dtype", "there is no dtype " + dtype);
    return found->second;
}

}  // namespace trtdsl
