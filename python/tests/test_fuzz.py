"""Random arguments for numpy: results or one sentence, and never a crash."""

import ml_dtypes
import numpy as np

import octile
from fuzzing import check_sentence, generators

WIDE = [np.float32, np.float16, ml_dtypes.bfloat16]
CODES = [ml_dtypes.float8_e4m3fn, np.uint8]
OTHERS = [np.float64, np.int32, np.dtype(">f4"), np.bool_, np.complex64, np.dtype("S3"), np.dtype("O")]
OTHERS += [ml_dtypes.float8_e5m2, ml_dtypes.int4, np.dtype("M8[s]"), np.dtype([("a", "f4"), ("b", "u1")])]
ALL = WIDE + CODES + OTHERS
SIDES = [0, 1, 3, 127, 128, 129, 256, 300]


class Subclass(np.ndarray):
    """An array of a type that numpy does not know."""


def array(generator, *shape, dtypes):
    """An array of some dtype, layout and kind."""
    dtype = np.dtype(generator.choice(dtypes))
    values = np.random.default_rng(generator.randrange(100)).standard_normal(shape)
    with np.errstate(all="ignore"):
        values *= generator.choice([1] * 12 + [0, 1e-30, 1e30, np.inf, np.nan])
        made = values.astype(np.int64).astype(dtype) if dtype.kind == "M" else values.astype(dtype)
    kind = generator.randrange(60)
    if kind == 0:
        made = np.asfortranarray(made)
    elif kind == 1:
        made = np.repeat(made, 2, axis=-1)[..., ::2]
    elif kind == 2:
        made = made[::-1]
    elif kind == 3:
        made = made[None]
    elif kind == 4 and made.ndim and len(made):
        made = np.broadcast_to(made[:1], made.shape)
    elif kind == 5 and made.dtype != object:
        raw = np.empty(made.nbytes + 1, np.uint8)[1:]
        raw[:] = np.frombuffer(made.tobytes(), np.uint8)
        made = raw.view(made.dtype).reshape(made.shape)
    elif kind == 6:
        made.setflags(write=False)
    elif kind == 7:
        made = np.ma.masked_array(made, np.zeros(made.shape, bool))
    elif kind == 8:
        made = made.view(Subclass)
    elif kind == 9 and made.size:
        made = made.reshape(-1)[0:1].reshape(())
    elif kind == 10 and made.size and made.ndim == 2:
        # More than the address space holds.
        made = np.broadcast_to(made[:1], (1 << 45, made.shape[1]))
    elif kind == 11:
        made = generator.choice([None, made.tolist(), 1.5, "x", memoryview(b"x"), np.float32(1), object()])
    elif kind == 12:
        made = made.reshape((1,) * 30 + made.shape)
    elif kind == 13 and made.dtype.kind != "O":
        made = np.ndarray(made.shape, made.dtype.newbyteorder(), made.tobytes())
    return made


def call(generator):
    """One product; returns its result and the shape that it should have."""
    m, n, k = (generator.choice(SIDES) for _ in range(3))
    block = generator.choice([128, 256, 512])
    if generator.random() < 0.1:
        block = generator.choice([0, 100, -1, 1 << 70, "128", None, 128.0, True])
    if generator.random() < 0.5:
        weight = octile.quantize(array(generator, n, k, dtypes=generator.choice([WIDE, ALL])), block=block)
    else:
        codes = array(generator, n, k, dtypes=generator.choice([CODES, ALL]))
        scales = array(generator, -(-n // 128), -(-k // 128), dtypes=[np.float32])
        if isinstance(scales, np.ndarray) and scales.size < 1 << 20:
            scales = np.abs(scales)
        weight = octile.Weight.from_codes(codes, scales, generator.choice([None, None, 128, block]))
    options = {}
    if generator.random() < 0.3:
        options["x_scales"] = array(generator, m, -(-k // 128), dtypes=[np.float32])
    if generator.random() < 0.4:
        options["x_scaling"] = generator.choice(["token", "block", "none"] * 3 + ["", None, 1])
    if generator.random() < 0.4:
        options["out_dtype"] = generator.choice([*ALL, "bfloat16", "x", None, 3])
    x = array(generator, m, k, dtypes=generator.choice([WIDE, WIDE, ALL]))
    if generator.random() < 0.02:
        weight = generator.choice([None, x, weight.codes])
    return octile.matmul(x, weight, **options), (*x.shape[:-1], weight.shape[0])


def test_numpy():
    passed = 0
    for generator in generators(1500):
        try:
            y, shape = call(generator)
        except (ValueError, TypeError, MemoryError) as error:
            check_sentence(error, generator)
        else:
            passed += 1
            assert y.shape == shape, f"seed {generator.number}"
    assert passed > 50
