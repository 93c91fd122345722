//! Where the chip is particular about what it computes, so is the interpreter: each attribute is honoured or
//! refused.

mod support;

use half::bf16;
use octile_mosaic::{
    interpret::{Options, Outcome, Tensor, simulate},
    parse,
};
use support::{floats, rates, run_small, small_kernel};

/// Runs `body`, which gives `%w`, on numbers of every size.
fn computed(body: &str, x: impl Fn(usize) -> f32) -> Outcome {
    let text = small_kernel(&format!("{body}\nvector.store %w, %out[%c0, %c0] : NEAR, VECTOR"));
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    simulate(&module, &[floats(&[8, 128], x)], &Options::new(rates()))
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// `x` times its transpose, 8 x 8, in the corner of the result.
fn product(precision: &str) -> (Vec<f32>, Vec<String>) {
    let body = format!(
        "%z = arith.constant dense<0.0> : vector<8x8xf32>
%p = tpu.matmul %v, %v, %z {{dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>{precision}}} : VECTOR, VECTOR, vector<8x8xf32> -> vector<8x8xf32>
vector.store %p, %out[%c0, %c0] : NEAR, vector<8x8xf32>
%w = vector.load %out[%c0, %c0] : NEAR, VECTOR"
    );
    let outcome = computed(&body, small);
    let values = outcome.outputs[0].to_f32();
    let corner = (0..64).map(|i| values[i / 8 * 128 + i % 8]).collect();
    (corner, outcome.notes.into_iter().map(|note| note.message).collect())
}

/// Numbers that bfloat16 does not hold.
fn small(i: usize) -> f32 {
    (i % 37) as f32 * 0.013_7 + 0.001
}

fn products_of(round: impl Fn(f32) -> f64) -> Vec<f64> {
    let x = |row: usize, k: usize| round(small(row * 128 + k));
    (0..64).map(|i| (0..128).map(|k| x(i / 8, k) * x(i % 8, k)).sum()).collect()
}

fn difference(ours: &[f32], exact: &[f64]) -> f64 {
    ours.iter().zip(exact).map(|(ours, exact)| (f64::from(*ours) / exact - 1.0).abs()).fold(0.0, f64::max)
}

#[test]
fn products_have_the_precision_that_they_are_asked_for() {
    let exact = products_of(f64::from);
    let rounded = products_of(|value| bf16::from_f32(value).to_f64());
    for precision in ["", ", precision = #tpu.contract_precision<bf16>"] {
        let (ours, notes) = product(precision);
        assert!(difference(&ours, &rounded) < 1e-6, "{precision}");
        assert!(difference(&ours, &exact) > 1e-5, "{precision}");
        assert!(notes.len() == 1 && notes[0].contains("rounded to bf16"), "{notes:?}");
    }
    let (three_passes, notes) = product(", precision = #tpu.contract_precision<bf16x3>");
    assert!(difference(&three_passes, &exact) < 1e-4 && notes.is_empty());
    let (full, notes) = product(", precision = #tpu.contract_precision<fp32>");
    assert!(difference(&full, &exact) < 1e-6 && notes.is_empty());
    assert_ne!(three_passes, full);
}

#[test]
fn conversions_round_as_they_are_told() {
    let narrowed = |mode: &str| -> Vec<f32> {
        let body = format!(
            "%n = tpu.truncf %v {{rounding_mode = #tpu.rounding_mode<{mode}>}} : VECTOR -> vector<8x128xbf16>\n\
             %w = tpu.extf %n : vector<8x128xbf16> -> VECTOR"
        );
        computed(&body, |i| if i % 2 == 0 { 1.0 + 3.0 / 512.0 } else { -1.0 - 3.0 / 512.0 }).outputs[0]
            .to_f32()
    };
    assert_eq!(narrowed("to_nearest_even")[..2], [1.0 + 1.0 / 128.0, -1.0 - 1.0 / 128.0]);
    assert_eq!(narrowed("towards_zero")[..2], [1.0, -1.0]);
    let to_integer = |mode: &str| -> Vec<f32> {
        let body = format!(
            "%n = tpu.fptosi %v {{rounding_mode = #tpu.rounding_mode<{mode}>}} : VECTOR -> vector<8x128xi32>\n\
             %w = tpu.sitofp %n {{rounding_mode = #tpu.rounding_mode<to_nearest_even>}} : vector<8x128xi32> -> VECTOR"
        );
        computed(&body, |i| i as f32 + 0.75).outputs[0].to_f32()
    };
    assert_eq!((to_integer("to_nearest_even")[3], to_integer("towards_zero")[3]), (4.0, 3.0));
}

#[test]
fn eight_bits_towards_zero_do_not_overflow() {
    for (ty, largest) in [("f8E4M3FN", 448.0), ("f8E5M2", 57344.0)] {
        let body = format!(
            "%n = tpu.truncf %v {{rounding_mode = #tpu.rounding_mode<towards_zero>}} : VECTOR -> vector<8x128x{ty}>\n\
             %w = tpu.extf %n : vector<8x128x{ty}> -> VECTOR"
        );
        let values = computed(&body, |i| [1e6, -1e6, 0.0, 1.06][i % 4]).outputs[0].to_f32();
        assert_eq!(values[..4], [largest, -largest, 0.0, 1.0], "{ty}");
    }
}

#[test]
fn rotations_have_strides() {
    let body = "%one = arith.constant 1 : i32\n\
                %w = tpu.dynamic_rotate %v by %one dim 1 {stride = 2 : si32, stride_dimension = 0 : si32} : VECTOR, i32 -> VECTOR";
    let rotated = computed(body, |i| i as f32).outputs[0].to_f32();
    // Row r moves by 1 + 2 r.
    for (row, lane) in [(0, 5), (3, 40), (7, 0)] {
        let from = (lane + 128 - (1 + 2 * row)) % 128;
        assert_eq!(rotated[row * 128 + lane], (row * 128 + from) as f32);
    }
}

#[test]
fn integers_of_few_bits_wrap_around() {
    let body = "%i = tpu.iota {dimensions = array<i32: 0, 1>} : vector<8x128xi8>\n\
                %j = arith.extsi %i : vector<8x128xi8> to vector<8x128xi32>\n\
                %w = arith.sitofp %j : vector<8x128xi32> to VECTOR";
    let counted = computed(body, |_| 0.0).outputs[0].to_f32();
    assert_eq!((counted[127], counted[128], counted[256]), (127.0, -128.0, 0.0));
}

/// What the interpreter does not model is refused before the kernel runs, at its line, by the attribute's
/// name.
#[test]
fn attributes_that_are_not_honoured_are_refused() {
    let cases = [
        ("%w = arith.addf %v, %v {sparkle = 1 : i32} : VECTOR", "sparkle"),
        (
            "%w = \"tpu.matmul\"(%v, %v, %v) <{precision = #tpu.contract_precision<tf32>}> : (VECTOR, VECTOR, VECTOR) -> VECTOR",
            "precision",
        ),
        (
            "%n = tpu.truncf %v {rounding_mode = #tpu.rounding_mode<stochastic>} : VECTOR -> vector<8x128xbf16>\n%w = tpu.extf %n : vector<8x128xbf16> -> VECTOR",
            "rounding_mode",
        ),
        (
            "%n = tpu.truncf %v : VECTOR -> vector<8x128xbf16>\n%w = tpu.extf %n : vector<8x128xbf16> -> VECTOR",
            "rounding_mode",
        ),
        (
            "%n = \"arith.truncf\"(%v) <{roundingmode = #arith.rounding_mode<upward>}> : (VECTOR) -> vector<8x128xbf16>\n%w = tpu.extf %n : vector<8x128xbf16> -> VECTOR",
            "roundingmode",
        ),
        (
            "%w = \"tpu.load\"(%x, %c0, %c0) <{sublane_mask = array<i1: true>}> : (NEAR, index, index) -> VECTOR",
            "mask of 8",
        ),
        ("%w = \"tpu.load\"(%x, %c0, %c0) : (NEAR, index, index) -> VECTOR", "sublane_mask"),
        (
            "%w = \"tpu.rotate\"(%v) <{amount = 1 : si32, dimension = 0 : si32, sparkle}> : (VECTOR) -> VECTOR",
            "sparkle",
        ),
        (
            "%w = \"vector.multi_reduction\"(%v, %v) <{kind = #vector.kind<sparkle>, reduction_dims = []}> : (VECTOR, VECTOR) -> VECTOR",
            "sparkle",
        ),
        ("%w = \"tpu.reciprocal\"(%v) <{approx = 3 : i32}> : (VECTOR) -> VECTOR", "approx"),
        (
            "%w = \"tpu.vector_load\"(%x, %c0, %c0) <{strides = array<i32: 0, 1>}> : (NEAR, index, index) -> VECTOR",
            "strides",
        ),
        (
            "%w = \"vector.load\"(%x, %c0, %c0) <{alignment = 3 : i64}> : (NEAR, index, index) -> VECTOR",
            "alignment",
        ),
        ("%w = \"tpu.repeat\"(%v) <{dimension = 0 : i32, times = 2 : i32}> : (VECTOR) -> VECTOR", "2 times"),
        (
            "%w = \"arith.addf\"(%v, %v) <{operandSegmentSizes = array<i32: 2, 2>}> : (VECTOR, VECTOR) -> VECTOR",
            "operandSegmentSizes",
        ),
        (
            "%w = \"vector.transpose\"(%v) <{permutation = array<i64: 0, 0>}> : (VECTOR) -> vector<8x8xf32>",
            "transposed by [0, 0]",
        ),
    ];
    for (body, attribute) in cases {
        let error = run_small(body).expect_err(body);
        assert!(error.starts_with("6:1: ") && error.contains(attribute), "{body}: {error}");
    }
    let kernel = small_kernel("vector.store %v, %out[%c0, %c0] : NEAR, VECTOR");
    let kernels = [
        ("attributes {", "attributes {sparkle = 1 : i32, ", "sparkle"),
        (
            "attributes {",
            "attributes {tpu.core_type = #tpu.core_type<sc_vector_subcore>, ",
            "sc_vector_subcore",
        ),
        (
            "attributes {",
            "attributes {dimension_semantics = [#tpu.dimension_semantics<subcore_parallel>], ",
            "subcore_parallel",
        ),
        ("window_params = [{}", "window_params = [{sparkle = 1 : i32}", "sparkle"),
        (
            "window_params = [{}",
            "window_params = [{window_kind = #tpu.element_window<[0], [0]>}",
            "window_kind",
        ),
        ("window_params = [{}", "window_params = [1 : i32", "window_params"),
    ];
    let operand: Tensor = floats(&[8, 128], |_| 1.0);
    for (from, to, word) in kernels {
        let module = parse(&kernel.replacen(from, to, 1)).unwrap();
        let error = simulate(&module, std::slice::from_ref(&operand), &Options::new(rates()))
            .unwrap_err()
            .to_string();
        assert!(error.contains(word), "{to}: {error}");
    }
}

#[test]
fn an_attribute_is_given_once() {
    let twice = "%w = \"tpu.iota\"() <{dimensions = array<i32: 0>}> {dimensions = array<i32: 1>} : () -> vector<8x128xi32>";
    assert!(run_small(twice).unwrap_err().contains("'dimensions' is given twice"));
}

#[test]
fn what_the_kernel_promises_is_checked() {
    let body = "%i5 = arith.constant 5 : i32\n%m = tpu.assume_multiple %i5, 8 : i32\n\
                %y = arith.constant 1.0 : f32\n%k = arith.index_cast %m : i32 to index\nmemref.store %y, %out[%k, %c0] : NEAR";
    let outcome = run_small(body).unwrap();
    assert!(format!("{:?}", outcome.findings).contains("5 is not a multiple of 8"), "{:?}", outcome.findings);
}
