"""`octile.simulate` and `octile.inspect` on real Pallas kernels; nothing here needs a TPU."""

import base64
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import numpy as np
import pytest

import octile
import octile.testing

jax = pytest.importorskip("jax", reason="Pallas kernels are lowered by JAX")
import jax.numpy as jnp
import pallas_kernels as kernels
from pallas_kernels import line_of

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
SHAPE = jax.ShapeDtypeStruct((32, 128), jnp.float32)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(7).standard_normal((32, 128)).astype(np.float32)


def twice(x):
    return 2 * x


@pytest.mark.parametrize("kernel", [kernels.double, kernels.copied, kernels.pipelined])
def test_correct_kernels_pass(kernel, x):
    simulation = octile.simulate(kernel, x, expect=twice)
    assert simulation.verdict == "PASS" and simulation.passed and simulation.findings == ()
    np.testing.assert_array_equal(simulation.outputs, 2 * x)
    assert simulation.raise_for_findings() is simulation
    assert simulation.cycles > 0


PLANTED = [
    (kernels.racy, "read_during_copy_in", "race: read"),
    (kernels.deadlocked, "deadlock", "deadlock"),
    (kernels.uninitialized, "read_of_unwritten", "uninitialized"),
    (kernels.leaking, "semaphore_left_over", "leak"),
]


@pytest.mark.parametrize("kernel, kind, comment", PLANTED)
def test_a_planted_bug_is_found_at_its_python_line(kernel, kind, comment):
    simulation = octile.simulate(kernel, SHAPE)
    assert simulation.verdict == "FAIL"
    (finding,) = simulation.findings
    assert finding.kind == kind
    assert pathlib.Path(finding.file).resolve() == HERE / "pallas_kernels.py"
    assert finding.line == line_of(comment)
    assert finding.source.endswith(f"# {comment}")
    assert finding.mosaic_line and finding.mosaic
    assert f"pallas_kernels.py:{finding.line}" in str(finding)
    with pytest.raises(octile.SimulationFailed, match=f"pallas_kernels.py:{finding.line}  ") as raised:
        simulation.raise_for_findings()
    assert raised.value.simulation is simulation


def test_a_race_names_both_accesses():
    (finding,) = octile.simulate(kernels.racy, SHAPE).findings
    read, copy = finding.events
    assert (read.role, read.op, read.agent, read.python.line) == (
        "read", "vector.load", "the core", line_of("race: read"),
    )  # fmt: skip
    assert (copy.role, copy.op, copy.agent) == ("DMA", "tpu.enqueue_dma", "DMA 0")
    assert copy.python.line == line_of("race: DMA")
    assert finding.message == "buffer[0:32, 0:128] is read while a DMA into it may be in flight"
    assert finding.remedy == "wait on arrived first"


def test_a_deadlock_has_no_outputs():
    assert octile.simulate(kernels.deadlocked, SHAPE).outputs is None


@pytest.mark.parametrize("function", [kernels.sum_and_codes, kernels.jitted_sum_and_codes])
def test_trees_types_and_static_arguments(function, x):
    import ml_dtypes

    y = np.arange(x.size, dtype=np.int32).reshape(x.shape) % 5
    tree = {"x": x, "more": [y]}
    outputs = octile.simulate(function, tree, 3.0, np.zeros(5, np.int8)).outputs
    expected = x * np.float32(3) + y.astype(np.float32)
    assert outputs.keys() == {"total", "narrow"}
    np.testing.assert_array_equal(outputs["total"], expected)
    bf16, fp8 = outputs["narrow"]
    assert bf16.dtype == ml_dtypes.bfloat16 and fp8.dtype == ml_dtypes.float8_e4m3fn
    np.testing.assert_array_equal(bf16, expected.astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(fp8, expected.astype(ml_dtypes.float8_e4m3fn))


def test_operands_keep_their_order():
    """Operands of one shape must not be mixed up, however many there are."""
    from jax.experimental import pallas as pl

    def kernel(*refs):
        total = sum(number * ref[...] for number, ref in enumerate(refs[:-1], 1))
        refs[-1][...] = total

    def f(*operands):
        shape = jax.ShapeDtypeStruct(operands[0].shape, operands[0].dtype)
        return pl.pallas_call(kernel, out_shape=shape)(*operands)

    operands = [np.full((8, 128), 3.0**number, np.float32) for number in range(12)]
    outputs = octile.simulate(f, *operands).outputs
    np.testing.assert_array_equal(outputs, sum(n * x for n, x in enumerate(operands, 1)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "int8", "int32"])
def test_operands_of_every_type(dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    from jax.experimental import pallas as pl

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].astype(jnp.float32)

    def f(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, jnp.float32))(x)

    x = (np.arange(32 * 128) % 13 - 6).reshape(32, 128)
    x = x.astype(getattr(ml_dtypes, dtype, dtype))
    np.testing.assert_array_equal(octile.simulate(f, x).outputs, x.astype(np.float32))


def test_a_wrong_result_fails_and_shows_the_element(x):
    expected = 2 * x
    expected[3, 5] += 1
    simulation = octile.simulate(kernels.double, x, expect=expected)
    assert not simulation.passed and simulation.findings == ()
    (comparison,) = simulation.comparisons
    assert (comparison["wrong"], comparison["worst"]["index"]) == (1, [3, 5])
    assert "worst at [3, 5]" in repr(simulation)
    assert octile.simulate(kernels.double, x, expect=expected, atol=2.0).passed


def test_matmul_against_a_reference():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(1)
    operands = [rng.standard_normal((256, 256)).astype(ml_dtypes.bfloat16) for _ in range(2)]
    octile.simulate(kernels.matmul, *operands, expect=jnp.dot).raise_for_findings()


def test_devices_of_a_mesh_that_does_not_exist(x):
    simulation = octile.simulate(kernels.shifted, x, mesh={"x": 4}, expect=np.roll(x, 8, axis=0))
    assert simulation.verdict == "PASS"
    assert simulation.record["devices"] == 4


def test_lowered_functions_text_bytes_and_paths(x, tmp_path):
    lowered = jax.jit(lambda unused, x: kernels.double(x)).trace(x, x).lower(lowering_platforms=("tpu",))
    np.testing.assert_array_equal(octile.simulate(lowered, 0 * x, x).outputs, 2 * x)
    text = lowered.as_text()
    path = tmp_path / "double.mlir"
    path.write_text(text)
    for module in (text, text.encode(), path, str(path)):
        (outputs,) = octile.simulate(module, x, expect=2 * x).raise_for_findings().outputs
        np.testing.assert_array_equal(outputs, 2 * x)


def test_random_operands_follow_the_seed():
    first, again, other = (octile.simulate(kernels.double, SHAPE, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.outputs, again.outputs)
    assert (first.outputs != other.outputs).any()
    assert first.verdict == "PASS, result not compared"


def test_one_kernel_alone():
    def two(x):
        return kernels.racy(kernels.double(x))

    names = [finding.kernel for finding in octile.simulate(two, SHAPE).findings]
    assert len(names) == 1
    assert not octile.simulate(two, SHAPE, kernel=names[0]).passed


def test_chips_are_modelled(x):
    chips = [octile.simulate(kernels.double, x, chip=chip) for chip in ("tpu7x", "v5e")]
    assert [simulation.record["chip"] for simulation in chips] == ["tpu7x", "v5e"]
    assert chips[0].cycles != chips[1].cycles


REFUSED = [
    ({"chip": "tpu9"}, "unknown chip tpu9: use one of tpu7x"),
    ({"seed": 3}, "`seed` chooses random operands"),
    ({"expect": np.zeros(3)}, "`expect` has the shapes (3,), but the function returns (32, 128)"),
    ({"kernel": "nobody"}, "double has no kernel 'nobody', only "),
    ({"max_operations": 0}, "for `max_operations`: 0 is not in 1"),
    ({"seed": -1, "kernel": "x"}, "invalid value '-1' for `seed`"),
    ({"devices": 0}, "invalid value '0' for `devices`"),
    ({"rtol": 0.1}, "`rtol` has no effect here and only applies to `expect`: remove it"),
    ({"mesh": 5}, "`mesh` is 5: pass the sizes of its axes"),
    ({"mesh": {"x": "a"}}, "`mesh` is {'x': 'a'}: pass the sizes of its axes"),
    ({"mesh": {"x": -4}}, "`mesh` is {'x': -4}: pass the sizes of its axes"),
    ({"mesh": {"x": 4}}, "double has no `shard_map` that takes its mesh from the context"),
]


@pytest.mark.parametrize("options, sentence", REFUSED)
def test_a_request_that_cannot_be_carried_out_is_one_sentence(options, sentence, x):
    with pytest.raises(octile.Error, match=re.escape(sentence)) as raised:
        octile.simulate(kernels.double, x, **options)
    assert "\n" not in str(raised.value) and os.sep + "tmp" not in str(raised.value)


def test_wrong_arguments_are_one_sentence(x, tmp_path):
    with pytest.raises(octile.Error, match="cannot lower int: pass a JAX function"):
        octile.simulate(3, x)
    with pytest.raises(octile.Error, match="some arguments are arrays and others shapes"):
        octile.simulate(kernels.sum_and_codes, {"x": x, "more": [SHAPE]}, 1.0, x)
    with pytest.raises(octile.Error, match="cannot read .*missing.mlir"):
        octile.simulate(tmp_path / "missing.mlir")
    with pytest.raises(octile.Error, match="random operands have no expected result"):
        octile.simulate(kernels.double, SHAPE, expect=x)
    lowered = jax.jit(kernels.double).trace(x).lower(lowering_platforms=("tpu",))
    with pytest.raises(octile.Error, match="the lowered function takes 1 arrays, but 2 were given"):
        octile.simulate(lowered, x, x)
    with pytest.raises(octile.Error, match="`mesh` is for functions that are lowered here: leave it out"):
        octile.simulate(lowered, x, mesh={"x": 4})
    with pytest.raises(octile.Error, match="cannot run module: @main takes 1 operands, but 2 were given"):
        octile.simulate(lowered.as_text(), x, x)
    with pytest.raises(octile.Error, match="`expect` names 2 tensors, but the number of results is 1"):
        octile.simulate(lowered.as_text(), x, expect=(x, x))
    with pytest.raises(octile.Error, match="at most 1024 MiB; pass arrays"):
        octile.simulate(kernels.double, jax.ShapeDtypeStruct((1 << 20, 1 << 12), np.float32))
    with pytest.raises(octile.Error):
        octile.simulate("this is\nnot a module")
    with pytest.raises(octile.Error):
        octile.simulate(b"")


def test_remedies_name_arguments(x):
    simulation = octile.simulate(kernels.double, x, max_operations=3)
    (finding,) = simulation.findings
    assert finding.remedy == "raise the limit with `max_operations` if the kernel ends"
    assert finding.remedy in str(simulation) and "--" not in str(simulation)


def test_a_function_without_a_kernel_has_nothing_to_check(x):
    with pytest.raises(octile.Error, match="the function has no Pallas kernel for TPUs"):
        octile.testing.assert_no_races(lambda x: x + 1, x)
    with pytest.raises(octile.Error, match="the function has no Pallas kernel for TPUs"):
        octile.testing.assert_matches(lambda x: x + 1, x, expected=x + 1)
    assert "the function has no kernel" in octile.simulate(lambda x: x + 1, x).report
    with pytest.raises(octile.Error) as raised:
        octile.inspect(lambda x: x + 1, x)
    assert str(raised.value) == "function calls no Pallas kernel (tpu_custom_call)"
    with pytest.raises(octile.Error, match="unknown chip 7"):
        octile.simulate(kernels.double, x, chip=7)


def test_reports_have_no_colours(x, monkeypatch):
    """Notebooks ask all programs for them."""
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in octile.simulate(kernels.racy, x).report


def test_errors_of_the_function_are_those_of_jax(x):
    with pytest.raises(ZeroDivisionError):
        octile.simulate(lambda x: 1 // 0, x)


def test_the_report_reads_like_that_of_the_command():
    report = repr(octile.simulate(kernels.racy, SHAPE))
    lines = report.splitlines()
    assert lines[0] == "racy" and lines[-1] == "verdict   FAIL"
    assert f"pallas_kernels.py:{line_of('race: read')}  o_ref[...] = buffer[...] * 2" in report
    assert "--" not in report


def test_html_is_escaped_and_complete(x):
    expected = 3 * x
    page = octile.simulate(kernels.racy, x, expect=expected)._repr_html_()
    assert "o_ref[...] = buffer[...] * 2  # race: read" in page
    assert "largest difference" in page and "data:image/svg+xml;base64," in page
    drawing = base64.b64decode(re.search('base64,([^"]*)', page)[1]).decode()
    assert ">racy: " in drawing and tempfile.gettempdir() not in drawing
    from html.parser import HTMLParser

    class Balance(HTMLParser):
        def __init__(self):
            super().__init__()
            self.stack = []

        def handle_starttag(self, tag, attrs):
            self.stack += [tag] if tag not in ("img", "br") else []

        def handle_endtag(self, tag):
            assert self.stack.pop() == tag

    parser = Balance()
    parser.feed(page)
    assert parser.stack == []


def test_cells_of_a_notebook_are_quoted():
    """A cell's source is known to linecache only, and is found there."""
    import linecache

    source = textwrap.dedent(
        """
        def kernel(x_hbm, o_ref, buffer, arrived):
            o_ref[...] = buffer[...] * 2  # <in> a cell
        """
    )
    name = "/nowhere/ipykernel_1/cell_1.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {}
    exec(compile(source, name, "exec"), scope)
    simulation = octile.simulate(lambda x: kernels._with_copy(scope["kernel"], x), SHAPE)
    assert simulation.findings[0].source == "o_ref[...] = buffer[...] * 2  # <in> a cell"
    assert "# &lt;in&gt; a cell" in simulation._repr_html_()


def test_a_folder_named_octile_is_not_imported(tmp_path, x, monkeypatch):
    (tmp_path / "octile").mkdir()
    (tmp_path / "octile" / "__init__.py").write_text("raise SystemExit('wrong package')")
    monkeypatch.chdir(tmp_path)
    assert octile.simulate(kernels.double, x).passed


ENDLESS = """
    import signal

    import jax
    import jax.numpy as jnp
    import octile
    from jax.experimental import pallas as pl
    from jax.experimental.pallas.tpu import SMEM

    def kernel(o_ref):
        o_ref[0, 0] = jax.lax.fori_loop(0, 2**30, lambda i, total: total + o_ref[0, 0] * 2, 0)

    def f():
        out = jax.ShapeDtypeStruct((1, 1), jnp.int32)
        return pl.pallas_call(kernel, out_shape=out, out_specs=pl.BlockSpec(memory_space=SMEM))()

    # A shell may have started this with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        octile.simulate(f, max_operations=2**60, timeout=0.5)
    except octile.Error as error:
        print(error, flush=True)
    octile.simulate(f, max_operations=2**60)
"""


def test_a_time_limit_and_an_interrupt_end_the_simulation():
    """As in a notebook, SIGINT reaches the process of the user alone."""
    code = textwrap.dedent(ENDLESS)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout.readline() == b"octile simulate was stopped after 0.5 s: raise `timeout`\n"
    time.sleep(0.5)
    assert child.poll() is None, child.stderr.read().decode()
    child.send_signal(signal.SIGINT)
    _, complaint = child.communicate(timeout=10)
    assert b"KeyboardInterrupt" in complaint
    # The grandchild would hold the pipes open: communicate() would not have returned.


def _libtpu_is_missing() -> bool:
    return "libtpu    missing" in subprocess.run(
        [*octile._command.command_line(), "tools"],
        capture_output=True, text=True, check=True, env={"VIRTUAL_ENV": sys.prefix, **os.environ},
    ).stdout  # fmt: skip


def test_inspect_says_when_the_compiler_is_missing(tmp_path):
    with pytest.raises(octile.Error, match="libtpu"):
        octile.inspect(kernels.double, SHAPE, libtpu=tmp_path / "libtpu.so")


def test_inspect_counts_cycles_per_python_line(tmp_path):
    if _libtpu_is_missing():
        pytest.skip("libtpu is missing: run `octile tools install tpu`")
    inspection = octile.inspect(kernels.copied, SHAPE, chip="v6e")
    (kernel,) = inspection.kernels
    assert inspection.passed and inspection.chip == "v6e"
    assert kernel.cycles > kernel.issued > 0 and inspection.cycles == kernel.cycles
    assert kernel.spills == 0 and kernel.vmem_bytes > 0
    assert abs(sum(line.share for line in kernel.lines) - 1) < 1e-6
    body = next(line for line in inspection.lines if "buffer[...] * 2" in (line.code or ""))
    assert pathlib.Path(body.file).resolve() == HERE / "pallas_kernels.py" and body.cycles > 0
    assert "copies-balanced" in {check.name for check in kernel.checks}
    assert "cycles" in repr(inspection)
    page = inspection._repr_html_()
    assert kernel.name in page and "buffer[...] * 2" in page
    inspection.report(tmp_path / "report.html")
    folder = pathlib.Path(inspection.folder)
    assert (folder / kernel.name).is_dir()
    del inspection
    assert not folder.exists()
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
