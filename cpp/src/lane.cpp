#include "lane.hpp"

#include <algorithm>

namespace trtdsl {

namespace {

nvinfer1::Dims dims_of(Shape const& shape) {
    nvinfer1::Dims dims{};
    dims.nbDims = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), dims.d);
    return dims;
}

bool share(View const& view, void const* data, std::size_t size) {
    auto const a = reinterpret_cast<std::uintptr_t>(view.data), b = reinterpret_cast<std::uintptr_t>(data);
    return a < b + size && b < a + bytes_of(view.shape, view.dtype);
}

bool share(View const& a, View const& b) { return share(a, b.data, bytes_of(b.shape, b.dtype)); }

// Whether TensorRT takes NCCL's communicator, which it does from 10.16 on.
template <typename Api>
auto takes(Api& context, void* communicator, int) -> decltype(context.setCommunicator(communicator)) {
    return context.setCommunicator(communicator);
}
template <typename Api>
bool takes(Api&, void*, long) {
    return false;
}

bool is_known(Shape const& shape) { return std::find(shape.begin(), shape.end(), -1) == shape.end(); }

}  // namespace

std::size_t bytes_of(Shape const& shape, std::string const& dtype) {
    auto const bytes = byte_count(shape, dtype);
    if (bytes < 0) throw Error("execution-failed", "a tensor of shape " + text_of(shape) + " is not known or too large");
    return static_cast<std::size_t>(bytes);
}

Lane::Lane(Loaded& state, bool graphs, bool eager) : state_(state), graphs_(graphs), eager_(eager) {
    make_context();
    try {
        cuda(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking), "making a stream");
        cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "making an event");
        cuda(cudaEventCreateWithFlags(&order_, cudaEventDisableTiming), "making an event");
    } catch (...) {
        release();
        throw;
    }
}

void Lane::make_context() {
    context_.reset(), allocators_.clear();
    profile_ = 0, generation_ = state_.generation;
    eager_ = eager_ || state_.eager;
    state_.log.forget();
#ifdef TRT_MAJOR_RTX
    config_ = state_.make_config(graphs_, eager_);
    context_.reset(state_.engine->createExecutionContext(config_.get()));
#else
    context_.reset(state_.engine->createExecutionContext());
#endif
    if (!context_) throw state_.failed("TensorRT makes no execution context");
    auto* const communicator = state_.options.communicator;
    if (communicator && !takes(*context_, communicator, 0)) throw state_.failed("TensorRT does not take the communicator for an execution context");
}

Lane::~Lane() { release(); }

void Lane::release() {
    if (done_) cudaEventSynchronize(done_);
    if (own_) cudaStreamSynchronize(own_);
    context_.reset();
    for (auto event : {done_, order_})
        if (event) cudaEventDestroy(event);
    if (own_) cudaStreamDestroy(own_);
}

cudaStream_t Lane::begin(cudaStream_t asked) {
    if (!context_ || generation_ != state_.generation || eager_ < state_.eager) {  // it may have captured the old weights
        cuda(cudaEventSynchronize(done_), "the run before");
        make_context();
    }
    bool const by_default = asked == cudaStreamLegacy || asked == cudaStreamPerThread;
    cudaStream_t const stream = asked && !by_default ? asked : own_;
    if (by_default) {  // after the caller's work there
        cuda(cudaEventRecord(order_, asked), "marking the caller's work");
        cuda(cudaStreamWaitEvent(stream, order_, 0), "waiting for the caller's work");
    }
    if (cudaEventQuery(done_) == cudaSuccess) retired_.release();
    else cudaGetLastError();  // it says that the run is not done
    cuda(cudaStreamWaitEvent(stream, done_, 0), "waiting for the run before");  // its scratch memory is in use
    return stream;
}

void Lane::end(cudaStream_t stream, cudaStream_t asked) {
    for (auto const& [view, source] : copies_)
        cuda(cudaMemcpyAsync(view.data, source, bytes_of(view.shape, view.dtype), cudaMemcpyDefault, stream), "copying an output");
    done(stream);
    if (asked && asked != stream) cuda(cudaStreamWaitEvent(asked, done_, 0), "ordering the caller's stream");
}

void Lane::done(cudaStream_t stream) { cuda(cudaEventRecord(done_, stream), "marking the end of a run"); }

// Where TensorRT reads an input: where it lies, or a copy.
void* Lane::address_of(TensorInfo const& info, View const& given, cudaStream_t stream) {
    if (given.data && (info.on_host || is_aligned(given.data))) return given.data;
    auto const size = bytes_of(given.shape, given.dtype);
    void* const copy = inputs_[info.name].reserve(size, info.on_host, retired_);
    if (size) cuda(cudaMemcpyAsync(copy, given.data, size, cudaMemcpyDefault, stream), "copying an input");
    return copy;
}

void Lane::set_address(TensorInfo const& info, void* address) {
    if (!context_->setTensorAddress(info.name.c_str(), address)) throw state_.failed("TensorRT does not take the address of '" + info.name + "'");
}

void Lane::bind(Views const& inputs, Views const& outputs, cudaStream_t stream, std::size_t profile) {
    auto const& signature = state_.signature;
    for (auto const& [name, view] : outputs)
        if (std::none_of(signature.outputs.begin(), signature.outputs.end(), [&, &wanted = name](auto const& info) { return info.name == wanted; }))
            throw Error("feed-name", "there is no output '" + name + "'");
    state_.log.forget();
    if (profile != profile_) {
        if (!context_->setOptimizationProfileAsync(static_cast<int>(profile), stream)) throw state_.failed("profile " + std::to_string(profile) + " cannot be chosen");
        profile_ = profile;
    }
    for (auto const& info : signature.inputs) {
        auto const& view = inputs.at(info.name);
        auto const what = "input '" + info.name + "'";
        if (bytes_of(view.shape, view.dtype)) {
            if (!view.data) throw Error("feed-place", what + " has no address");
            check_place(what, view.data, info.on_host, state_.device);
        }
        if (!context_->setInputShape(info.name.c_str(), dims_of(view.shape))) throw state_.failed("TensorRT does not take the shape of " + what);
        bool const replaced = std::any_of(signature.outputs.begin(), signature.outputs.end(), [&](auto const& output) { return output.alias == info.name; });
        if (!replaced) set_address(info, address_of(info, view, stream));
    }
    if (context_->inferShapes(0, nullptr) != 0) throw state_.failed("the shapes do not fit each other, or are not known");
    results_.clear(), copies_.clear(), running_allocators_.clear();
    for (auto const& info : signature.outputs) {
        auto const found = outputs.find(info.name);
        auto const* const given = found == outputs.end() ? nullptr : &found->second;
        auto const meets = [&](auto const& other) { return &other.second != given && share(other.second, *given); };
        if (given && std::any_of(outputs.begin(), outputs.end(), meets)) throw Error("feed-place", "the memory of output '" + info.name + "' is another output's too");
        results_[info.name] = bind_output(info, given, inputs, stream);
    }
}

// Gives an output its memory: the caller's, or the lane's own, on the CPU where TensorRT writes it there. What lies in the
// memory of an input is written to when the run is done, but for an input that TensorRT itself replaces by the output.
View Lane::bind_output(TensorInfo const& info, View const* given, Views const& inputs, cudaStream_t stream) {
    char const* const name = info.name.c_str();
    auto const what = "output '" + info.name + "'";
    View view{info.dtype, shape_of(context_->getTensorShape(name)), nullptr};
    View const* const replaced = info.alias.empty() ? nullptr : &inputs.at(info.alias);
    auto const is_read = [&](void* data, std::size_t size) {
        return std::any_of(inputs.begin(), inputs.end(), [&](auto const& input) { return !(&input.second == replaced && replaced->data == data) && share(input.second, data, size); });
    };
    auto const own = [&]() -> Memory& {
        auto& memory = outputs_[info.name];
        auto const [data, size] = memory.held();
        if (is_read(data, size)) throw Error("feed-place", "an input lies in the memory of " + what + " of the run before, which this run overwrites: give it memory of its own");
        return memory;
    };
    bool const known = is_known(view.shape);
    if (given) {
        if (!known) throw Error("feed-shape", "the shape of " + what + " depends on values: no memory can be given for it");
        if (given->dtype != info.dtype) throw Error("feed-dtype", what + " is " + info.dtype + ", and memory for " + given->dtype + " was given");
        if (given->shape != view.shape) throw Error("feed-shape", what + " has shape " + text_of(view.shape) + ", and memory for " + text_of(given->shape) + " was given");
    }
    if (!known) {
        auto& allocator = allocators_[info.name];
        auto& memory = own();
        if (!allocator) {
            allocator = std::make_unique<Allocator>(memory, info.on_host, retired_);
            if (!context_->setOutputAllocator(name, allocator.get())) throw state_.failed("TensorRT takes no memory for " + what);
        }
        allocator->begin(), running_allocators_.push_back(info.name);
        return view;
    }
    auto const size = bytes_of(view.shape, info.dtype);
    if (given && size) {
        if (!given->data) throw Error("feed-place", what + " has no address");
        check_place(what, given->data, info.on_host, state_.device);
        view.data = given->data;
    }
    void* target = view.data;
    if (!target || (!info.on_host && (!is_aligned(target) || is_read(target, size)))) {
        target = own().reserve(size, info.on_host, retired_);
        if (view.data) copies_.emplace_back(view, target);
        else view.data = target;
    }
    set_address(info, target);
    if (!replaced) return view;
    if (bytes_of(replaced->shape, replaced->dtype) != size) throw Error("execution-failed", what + " does not replace its input: they differ in size");
    if (size && replaced->data != target) cuda(cudaMemcpyAsync(target, replaced->data, size, cudaMemcpyDefault, stream), "copying an input");
    if (!context_->setTensorAddress(info.alias.c_str(), target)) throw state_.failed("TensorRT does not take the address of input '" + info.alias + "'");
    return view;
}

void Lane::execute(cudaStream_t stream) {
    state_.log.forget();
    bool const ran = context_->enqueueV3(stream);
    for (auto const& name : running_allocators_) allocators_.at(name)->check();
    if (!ran) throw state_.failed("the engine did not run");
}

void Lane::enqueue(Views const& inputs, Views const& outputs, cudaStream_t asked, Profile profile) {
    auto const index = check_feeds(state_.signature, inputs, profile);
    cudaStream_t const stream = begin(asked);
    try {
        bind(inputs, outputs, stream, index);
        execute(stream);
        end(stream, asked);
    } catch (...) {
        cudaStreamSynchronize(stream);  // what was enqueued may use memory that goes now
        throw;
    }
}

bool Lane::ready() {
    auto const status = cudaEventQuery(done_);
    if (status == cudaErrorNotReady) cudaGetLastError();
    else cuda(status, "the run");
    return status == cudaSuccess;
}

Views Lane::finish() {
    cuda(cudaEventSynchronize(done_), "the run");
    retired_.release();
    for (auto const& name : running_allocators_) {
        results_[name].shape = allocators_.at(name)->shape();
        results_[name].data = allocators_.at(name)->data();
    }
    return results_;
}

// What lies as rows by columns in each of a batch, as columns by rows.
static std::string turned(std::string const& data, std::size_t batch, std::size_t rows, std::size_t columns, std::size_t item) {
    std::string result;
    result.reserve(data.size());
    for (std::size_t n = 0; n < batch; ++n)
        for (std::size_t column = 0; column < columns; ++column)
            for (std::size_t row = 0; row < rows; ++row) result.append(data, ((n * rows + row) * columns + column) * item, item);
    return result;
}

// The data of an array that is not empty, with its channels last, or from there.
static std::string turned(Array const& array, bool to_last) {
    auto const batch = static_cast<std::size_t>(array.shape[0]), channels = static_cast<std::size_t>(array.shape[1]);
    auto const item = item_size(array.dtype), places = array.data.size() / (batch * channels * item);
    return to_last ? turned(array.data, batch, channels, places, item) : turned(array.data, batch, places, channels, item);
}

void Lane::copy_in(TensorInfo const& info, View const& target, Array const& source, cudaStream_t stream) {
    if (source.data.empty()) return;
    auto const last = info.channels_last ? turned(source, true) : std::string();
    auto const& data = info.channels_last ? last : source.data;
    cuda(cudaMemcpyAsync(target.data, data.data(), data.size(), cudaMemcpyHostToDevice, stream), "copying an input");
    if (info.channels_last) cuda(cudaStreamSynchronize(stream), "copying an input");  // before the turned copy goes
}

Arrays Lane::copy_out(Views const& views, cudaStream_t stream) {
    Arrays results;
    for (auto const& info : state_.signature.outputs) {
        auto const found = views.find(info.name);
        if (found == views.end()) continue;
        auto const& view = found->second;
        auto& array = results[info.name] = {view.dtype, view.shape, {}};
        resize(array.data, bytes_of(view.shape, view.dtype));
        if (array.data.empty()) continue;
        if (info.on_host) std::copy_n(static_cast<char const*>(view.data), array.data.size(), array.data.begin());
        else cuda(cudaMemcpyAsync(array.data.data(), view.data, array.data.size(), cudaMemcpyDeviceToHost, stream), "copying an output");
    }
    cuda(cudaStreamSynchronize(stream), "the run");
    for (auto const& info : state_.signature.outputs)
        if (auto const found = results.find(info.name); info.channels_last && found != results.end() && !found->second.data.empty())
            found->second.data = turned(found->second, false);
    return results;
}

Arrays Lane::run(Arrays const& feeds, std::size_t profile, Views const& states, Views const& after) {
    try {
        begin(own_);
        Views inputs = states, outputs = after;
        for (auto const& info : state_.signature.inputs) {
            if (states.count(info.name)) continue;
            auto const& array = feeds.at(info.name);
            View view{array.dtype, array.shape, inputs_[info.name].reserve(array.data.size(), info.on_host, retired_)};
            if (info.on_host) std::copy(array.data.begin(), array.data.end(), static_cast<char*>(view.data));
            else copy_in(info, view, array, own_);
            inputs[info.name] = view;
        }
        for (auto const& info : state_.signature.outputs)
            if (!info.alias.empty()) outputs.emplace(info.name, inputs.at(info.alias));  // which is this lane's copy
        bind(inputs, outputs, own_, profile);
        execute(own_);
        end(own_, nullptr);
        auto results = finish();
        for (auto const& [name, view] : after) results.erase(name);
        return copy_out(results, own_);
    } catch (...) {
        cudaStreamSynchronize(own_);  // the feeds may go when this returns
        throw;
    }
}

}  // namespace trtdsl
