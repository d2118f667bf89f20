"""Programs of real engines, whose launches and bytes are worked by hand."""

import inspect

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.errors import ProgramFaultError
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.program import At, program_of_plan
from trtdsl.programs.plan import plain

FLOAT = 4  # bytes


def kinds(program):
    return [launch.kind for launch in program.launches]


def test_a_product(program_of, constant):
    line = inspect.currentframe().f_lineno + 1
    program = program_of(lambda net: F.matmul(net.input("x", (64, 128)), constant(net, 128, 256)))
    (launch,) = program.launches
    assert (launch.kind, launch.times, launch.stream, launch.dtype) == ("product", 1, 0, "float32")
    assert launch.flops == 2 * 64 * 128 * 256
    assert [operand.bytes for operand in launch.reads] == [64 * 128 * FLOAT, 128 * 256 * FLOAT]
    assert [operand.bytes for operand in launch.writes] == [64 * 256 * FLOAT]
    assert launch.lines == (f"programs/test_program.py:{line}",)
    assert program.bytes == (64 * 128 + 128 * 256 + 64 * 256) * FLOAT
    assert program.rearranged_bytes == 0
    assert program.constant_bytes == 128 * 256 * FLOAT + 8  # and the factors alpha and beta
    assert program.memory == 8_192_000  # every product has this much scratch space
    assert (program.inputs, program.outputs) == ({"x": (64, 128)}, ("y0",))


def test_fused_layers_are_one_launch(program_of):
    program = program_of(lambda net: F.sigmoid(F.exp(net.input("x", (64, 256))) * 2 + 1))
    assert kinds(program) == ["pointwise"]
    assert program.bytes == 2 * 64 * 256 * FLOAT


def test_a_gather_that_is_fused_into_a_reduction_reads_its_rows(program_of, constant):
    program = program_of(lambda net: F.mean(F.embedding(net.input("i", (4, 7), "int64"), constant(net, 32000, 64)), 1))
    launch = program.launches[0]
    assert (launch.kind, launch.name) == ("reduction", "GathMean")
    assert [operand.bytes for operand in launch.reads] == [4 * 7 * 64 * FLOAT, 4 * 7 * 8]


@pytest.mark.parametrize("batch", [2, td.Dim("N", min=1, opt=2, max=4)], ids=["static", "dynamic"])
def test_a_gather_in_a_kernel_whose_name_is_cut_off_reads_its_rows(program_of, batch):
    """TensorRT names no more than some twenty operations of a kernel: its source tells what it gathers."""

    def net_of(net):
        x, places = net.input("x", (batch, 4096, 16)), net.input("i", (5,), "int64")
        steps = [F.sin, F.abs, F.exp, F.sqrt, F.tanh, F.sigmoid, F.cos] * 3
        for step in steps:
            places = (step(places.float() / 7) * 6).to(torch.int64)
        return F.index_select(x, 1, places) * 2

    (launch,) = program_of(net_of).launches
    assert launch.name.endswith("Etc")
    assert sorted(operand.bytes for operand in launch.reads) == [5 * 8, 2 * 5 * 16 * FLOAT]


def test_parts_of_a_concatenation_read_their_part(program_of):
    def net_of(net):
        x = net.input("x", (2, 64, 32))
        return F.cat([x[:, :3], F.relu(x[:, 5:6]), x[:, 60:].exp()], 1)

    (launch,) = program_of(net_of).launches
    assert [operand.bytes for operand in (*launch.reads, *launch.writes)] == [2 * 8 * 32 * FLOAT] * 2


def test_a_kernel_that_writes_a_tensor_of_nothing_too_is_no_damage(program_of):
    """At one size of many a part of the sequence has no elements."""
    time = td.Dim("T", min=4, opt=4, max=8)

    def net_of(net):
        x = net.input("x", (2, time, 16))
        return F.relu(x[:, 4:]), x.exp()

    program = program_of(net_of, T=4)
    assert sum(operand.bytes for launch in program.launches for operand in launch.writes) == 2 * 4 * 16 * FLOAT


def test_a_scatter_touches_what_it_updates(program_of):
    def update(net):
        cache, places = net.input("c", (1000, 64)), net.input("i", (3, 1), "int64")
        return L.scatter(cache, places, net.input("u", (3, 64)), "ND")

    copy, scatter = program_of(update).launches
    assert [operand.bytes for operand in (*copy.reads, *copy.writes)] == [1000 * 64 * FLOAT] * 2
    assert [operand.bytes for operand in scatter.reads] == [3 * 8, 3 * 64 * FLOAT]
    assert [operand.bytes for operand in scatter.writes] == [3 * 64 * FLOAT]


def test_a_cache_is_updated_in_place():
    def update(net):
        cache, rows = net.input("c", (2, 4, 1024, 16)), net.input("u", (2, 4, 3, 16))
        return L.kv_cache_update(cache, rows, net.input("i", (2,), "int32"))

    net = td.Network()
    net.output(update(net), "y")
    (launch,) = td.program(net).launches
    assert [operand.bytes for operand in launch.writes] == [2 * 4 * 3 * 16 * FLOAT]
    assert launch.bytes == 2 * 2 * 4 * 3 * 16 * FLOAT + 2 * 4


def test_a_cache_is_updated_in_place_by_the_launch_that_rotates():
    net = td.Network()
    cache, rows = net.input("c", (2, 4, 1024, 64)), net.input("u", (2, 4, 3, 64))
    angles = net.input("cos", (2, 3, 32)), net.input("sin", (2, 3, 32))
    net.output(L.kv_cache_update(cache, L.rotary_embedding(rows, *angles), net.input("i", (2,), "int32")), "y")
    update = 2 * 4 * 3 * 64 * FLOAT
    assert sum(launch.bytes for launch in td.program(net).launches) <= 5 * update


def test_attention_of_one_query_counts_its_keys(program_of):
    def attend(net):
        query = net.input("q", (2, 8, 1, 64), "float16")
        return F.scaled_dot_product_attention(
            query, net.input("k", (2, 8, 1024, 64), "float16"), net.input("v", (2, 8, 1024, 64), "float16")
        )

    launch = program_of(attend).launches[0]
    assert (launch.kind, launch.name) == ("attention", "_gemv_mha_v1")
    assert launch.flops == 2 * 8 * 1024 * (2 * 64 + 2 * 64)


def test_views_at_two_places_of_a_tensor_are_two_operands(program_of, constant):
    def halves(net):
        x = F.linear(net.input("x", (64, 8, 32)), constant(net, 32, 32))
        return F.matmul(x[:32], F.transpose(x[32:], 1, 2))

    program = program_of(halves)
    product = next(launch for launch in program.launches[1:] if launch.kind == "product")
    views = [program.tensors[operand.tensor] for operand in product.reads]
    assert sorted(view.offset for view in views) == [0, 32 * 8 * 32 * FLOAT]
    assert [operand.bytes for operand in product.reads] == [32 * 8 * 32 * FLOAT] * 2


def test_an_operand_that_is_used_twice_is_read_once(program_of):
    def square(net):
        x = net.input("x", (64, 256))
        return x * x

    assert program_of(square).bytes == 2 * 64 * 256 * FLOAT


def test_a_transpose_only_rearranges(program_of):
    program = program_of(lambda net: net.input("x", (64, 256)).permute(1, 0))
    assert kinds(program) == ["rearranging"]
    assert program.rearranged_bytes == program.bytes == 2 * 64 * 256 * FLOAT


def test_a_concatenation_only_rearranges(program_of):
    program = program_of(lambda net: F.cat([net.input("x", (64, 256)), net.input("y", (64, 128))], 1))
    assert kinds(program) == ["rearranging"]
    assert program.rearranged_bytes == 2 * 64 * (256 + 128) * FLOAT


def test_a_product_after_a_convolution(program_of, constant):
    def net_of(net):
        x = F.conv2d(net.input("x", (2, 8, 16, 16)), constant(net, 32, 8, 3, 3), constant(net, 32), padding=1)
        return F.matmul(x.permute(0, 2, 3, 1), constant(net, 32, 64))

    program = program_of(net_of)
    # The input becomes channels last, which the convolution reads and writes, so that the product needs no transpose.
    assert kinds(program) == ["rearranging", "convolution", "product"]
    pixels = 2 * 16 * 16
    move, convolution, product = (launch.bytes for launch in program.launches)
    assert program.copied_bytes == pixels * 8 * FLOAT  # the input again, channels last
    assert move == 2 * pixels * 8 * FLOAT
    assert convolution == (pixels * 8 + 32 * 8 * 9 + 32 + pixels * 32) * FLOAT
    assert product == (pixels * 32 + 32 * 64 + pixels * 64) * FLOAT
    assert program.launches[1].flops == 2 * pixels * 32 * 8 * 9
    assert program.launches[2].flops == 2 * pixels * 32 * 64
    (written,) = program.launches[1].writes
    assert program.tensors[written.tensor].order == (0, 2, 3, 1)
    assert program.launches[1].epilogue == ("bias",)


def test_a_fusion_that_is_compiled_where_it_runs(program_of, constant):
    def net_of(net):
        half = torch.float16
        x = net.input("x", (64, 256), half)
        x = F.linear(x, constant(net, 512, 256, dtype=half), constant(net, 512, dtype=half))
        return F.relu(x)

    program = program_of(net_of)
    (launch,) = program.launches
    assert (launch.kind, launch.epilogue) == ("product", ("Add", "Relu"))
    assert launch.body == ("fully_connected", "add", "relu")
    assert launch.bytes == (64 * 256 + 512 * 256 + 512 + 64 * 512) * 2
    assert launch.flops == 2 * 64 * 256 * 512 + 2 * 64 * 512  # and one for each sum and each comparison


def test_a_gather_reads_as_much_as_it_gives(program_of, constant):
    program = program_of(lambda net: F.embedding(net.input("i", (4, 7), torch.int64), constant(net, 10_000, 32)))
    assert program.bytes == 4 * 7 * 8 + 2 * 4 * 7 * 32 * FLOAT


def test_dynamic_sizes(program_of, constant):
    batch, time = td.Dim("N", min=1, opt=4, max=8), td.Dim("T", min=2, opt=64, max=128)

    def net_of(net):
        return F.matmul(net.input("x", (batch, time, 128)), constant(net, 128, 256))

    for dims, (n, t) in (({}, (4, 64)), ({"N": 3}, (3, 64)), ({"N": 1, "T": 2}, (1, 2))):
        program = program_of(net_of, **dims)
        assert program.dims == {"N": n, "T": t}
        assert program.bytes == (n * t * 128 + 128 * 256 + n * t * 256) * FLOAT
    with pytest.raises(td.UsageError, match=r"has no dimension 'M': it has N, T"):
        program_of(net_of, M=3)
    with pytest.raises(td.UsageError, match="N = 9 is not within 1 to 8"):
        program_of(net_of, N=9)


def test_a_loop_counts_its_steps(program_of, constant):
    def net_of(net):
        weight = constant(net, 16, 16)
        state = (net.constant(torch.tensor(0)), net.input("x", (32, 16)))
        return td.while_loop(lambda i, h: i < 10, lambda i, h: (i + 1, F.tanh(F.matmul(h, weight))), state)[1]

    program = program_of(net_of)
    assert [(launch.kind, launch.times) for launch in program.launches] == [
        ("rearranging", 1),
        ("product", 10),
        ("pointwise", 10),
    ]
    state = 32 * 16 * FLOAT
    # Before it: a copy of the state. In a step: a product, and tanh, which writes the next state and the result.
    assert program.bytes == 2 * state + 10 * (2 * state + 16 * 16 * FLOAT) + 10 * 3 * state
    assert program.launch_count == 21


def test_a_conditional_counts_the_branch_that_moves_more(program_of, constant):
    def net_of(net):
        x, weight = net.input("x", (32, 16)), constant(net, 16, 16)
        return F.exp(td.cond(x.sum() > 0, lambda a: F.exp(a), lambda a: F.matmul(a, weight), (x,)))

    program = program_of(net_of)
    assert "product" in kinds(program)
    assert [note.partition(":")[0] for note in program.notes] == ["values on the GPU decide which of two branches runs"]


def test_a_conditional_of_dynamic_sizes_computes_them_in_each_branch(program_of, constant):
    rows = td.Dim("N", min=1, opt=2, max=8)

    def net_of(net):
        x = net.input("x", (rows, 8, td.Dim("H", min=3, opt=5, max=9), 4))
        return td.cond(x.mean() > 0, lambda x: F.tanh(x), lambda x: x * 2, (x,))

    program = program_of(net_of, N=3, H=7)
    (tanh,) = [launch for launch in program.launches if "Tanh" in launch.name]
    assert tanh.bytes == 2 * 3 * 8 * 7 * 4 * FLOAT


def attended(x):
    return F.scaled_dot_product_attention(x, x, x)


def test_attention_after_a_loop_whose_block_the_builder_splits(program_of):
    """The jumps keep a label that the text has no more."""

    def net_of(net):
        state = (net.constant(torch.tensor(0)), net.input("x", (2, 4, 8)))
        return attended(td.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, F.tanh(h)), state)[1])

    program = program_of(net_of)
    assert sum(launch.times for launch in program.launches if "Tanh" in launch.name) == 3
    assert [launch.times for launch in program.launches if launch.kind == "product"] == [1]


@pytest.mark.parametrize("rows", [2, td.Dim("N", min=1, opt=2, max=4)], ids=["static", "dynamic"])
def test_attention_after_a_branch_whose_block_the_builder_splits(program_of, rows):
    def loop(x):
        return td.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, F.tanh(h)), (0, x))[1]

    def net_of(net):
        x = net.input("x", (rows, 4, 8))
        return attended(td.cond(x.mean() > 0, loop, F.relu, (x,)))

    program = program_of(net_of, **({"N": 3} if isinstance(rows, td.Dim) else {}))
    counted = not isinstance(rows, td.Dim)  # where sizes are dynamic, the GPU counts: docs/traps/builder-loops.md
    assert sum(launch.times for launch in program.launches if "Tanh" in launch.name) == (3 if counted else 1)
    assert not any("Relu" in launch.name for launch in program.launches)
    assert [launch.times for launch in program.launches if launch.kind == "product"] == [1]
    assert len(program.notes) == (1 if counted else 2)


def test_a_scan_over_a_dynamic_length_counts_its_steps(program_of, constant):
    time = td.Dim("T", min=4, opt=64, max=128)

    def net_of(net):
        weight = constant(net, 16, 16)

        def step(carry, x):
            carry = F.tanh(F.matmul(carry, weight) + x)
            return carry, carry

        return td.scan(step, net.input("h", (4, 16)), net.input("x", (time, 4, 16)))[1]

    for length in (64, 100):
        program = program_of(net_of, T=length)
        assert sum(launch.times for launch in program.launches if launch.kind == "product") == length
        assert not program.notes
    (result,) = (tensor for name, tensor in program.tensors.items() if plain(name) in program.outputs)
    assert (result.shape, result.dims) == ((100, 4, 16), ("T", "4", "16"))


def test_profiles_have_programs_of_their_own(constant):
    batch = td.Dim("N", min=1, opt=4, max=64)
    net = td.Network(profiles=[td.Profile(N=1), td.Profile(N=(8, 16, 64))])
    x = net.input("x", (batch, 128))
    net.output(F.matmul(x, constant(net, 128, 32)), "y")
    plan = compile_engine(net)
    for profile, n in ((0, 1), (1, 16)):
        program = program_of_plan(plan, net, At({}, {}, {}, profile))
        assert program.bytes == (n * 128 + 128 * 32 + n * 32) * FLOAT
        assert (program.inputs, program.outputs) == ({"x": (n, 128)}, ("y",))
    with pytest.raises(td.UsageError, match="no profile 2"):
        program_of_plan(plan, net, At({}, {}, {}, 2))


def test_quantized_products(program_of, constant):
    def write(dtype):
        def product(net):
            quantized = [
                td.dequantize(td.quantize(tensor, 0.05, dtype=dtype), 0.05)
                for tensor in (net.input("x", (64, 128)), constant(net, 128, 64))
            ]
            return F.matmul(*quantized)

        return product

    for dtype in ("int8", "float8_e4m3fn"):
        program = program_of(write(dtype))
        (product,) = [launch for launch in program.launches if launch.kind == "product"]
        assert product.dtype == dtype
        assert product.bytes == 64 * 128 + 128 * 64 + 64 * 64 * FLOAT


@pytest.mark.parametrize("size", [128, 64])
def test_a_kernel_that_no_compiler_takes_is_named_and_no_engine_of_it_is_written(size, tmp_path):
    """docs/traps/builder-int4.md: one scale for each row of a weight, and the advice."""
    weight = torch.randn(64, 128, generator=torch.Generator().manual_seed(0))

    @td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=1, max=4), 128))})
    def narrow(x):
        groups = weight.reshape(-1, size)
        codes = td.quantize(x.network.constant(groups), scale := groups.abs().amax(1) / 7, "int4", axis=0)
        return (F.rms_norm(x, (128,)).unsqueeze(-2) * td.dequantize(codes, scale, axis=0).reshape(64, 128)).sum(-1)

    if size == 64:
        x = torch.randn(1, 128, generator=torch.Generator().manual_seed(1))
        net = narrow.define()
        got, expected = td.evaluate_engine(net, {"x": x}), td.interpret(net, {"x": x})
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
        return
    with pytest.raises(ProgramFaultError, match=r"test_program.py:\d+.* reads a weight in 4 bits by a kernel that no"):
        td.program(narrow)
    with pytest.raises(ProgramFaultError, match="Give a row two"):
        td.build(narrow, tmp_path / "narrow.engine", check=False)
    assert list(tmp_path.iterdir()) == []


class TestLostResult:
    """docs/traps/builder-outputs.md"""

    WEIGHT = torch.randn(16, 16, generator=torch.Generator().manual_seed(0))

    def network(self, used):
        @td.network(inputs={"x": td.Input((2, 6, 16))})
        def lost(x):
            y = F.tanh(x)
            z = F.sin(y)
            return F.cos(z), abs(z), F.linear(used(y), self.WEIGHT) + z

        return lost

    def test_it_is_named_and_no_engine_is_written(self, tmp_path):
        spec = self.network(lambda y: y)
        said = r"linear_U1 .*test_program.py:\d+.* reads tanh, which TanhSinAbsCos .* computes and never writes"
        with pytest.raises(ProgramFaultError, match=said):
            td.program(spec)
        with pytest.raises(ProgramFaultError, match=said):
            td.build(spec, tmp_path / "lost.engine", check=False)
        assert list(tmp_path.iterdir()) == []

    def test_the_advice_helps_at_no_cost(self, tmp_path):
        spec = self.network(lambda y: F.maximum(y, y))
        assert len(td.program(spec).launches) == 3
        x = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(1))
        z = x.tanh().sin()
        got = td.evaluate_engine(spec, {"x": x})
        for have, want in zip(got.values(), (z.cos(), z.abs(), x.tanh() @ self.WEIGHT.T + z), strict=True):
            torch.testing.assert_close(have, want)


class TestBranchThatReadsTheOther:
    """docs/traps/builder-conditionals.md"""

    WEIGHT = torch.randn(7, 7, generator=torch.Generator().manual_seed(0))

    def network(self, used):
        @td.network(inputs={"x": td.Input((1, 4, 7))})
        def shared(x):
            return td.cond(x.mean() > 0, lambda x: F.linear(x, self.WEIGHT), lambda x: x * 2, (used(x),))

        return shared

    def test_it_is_named_and_no_engine_is_written(self, tmp_path):
        said = r"MulSlic .*test_program.py:\d+\) reads what Conc .* writes in another branch alone"
        with pytest.raises(ProgramFaultError, match=said):
            td.build(self.network(lambda x: x), tmp_path / "shared.engine", check=False)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("sign", [1, -1])
    def test_the_advice_helps(self, sign):
        x = sign * torch.rand(1, 4, 7, generator=torch.Generator().manual_seed(1))
        got = td.evaluate_engine(self.network(lambda x: F.maximum(x, x)), {"x": x})["output"]
        torch.testing.assert_close(got, x @ self.WEIGHT.T if sign > 0 else x * 2)
