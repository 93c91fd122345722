//! Single operations with values that were computed by hand. The operand of each kernel holds the numbers
//! from 1 on, 128 per row.

mod support;

use octile_mosaic::{
    interpret::{Options, Trouble, simulate},
    parse,
};
use support::{floats, rates, run_small};

/// The result of a body that leaves a vector in `%w`.
fn result(body: &str) -> Vec<f32> {
    let body = format!("{body}\nvector.store %w, %out[%c0, %c0] : NEAR, VECTOR");
    let outcome = run_small(&body).unwrap_or_else(|error| panic!("{body}: {error}"));
    assert_eq!((outcome.findings, outcome.completed), (Vec::new(), true), "{body}");
    outcome.outputs[0].to_f32()
}

/// The first elements of the result of a body that leaves integers in `%i`.
fn integers(body: &str, count: usize) -> Vec<f32> {
    let body = format!("{body}\n%w = arith.sitofp %i : vector<8x128xi32> to VECTOR");
    result(&body)[..count].to_vec()
}

const LANES: &str = "%lane = tpu.iota {dimensions = array<i32: 1>} : vector<8x128xi32>";

#[test]
fn functions_have_the_values_of_the_tables() {
    let at = |op: &str, value: &str| {
        result(&format!("%k = arith.constant dense<{value}> : VECTOR\n%w = math.{op} %k : VECTOR"))[0]
    };
    let cases = [
        ("erf", "0.5", 0.5204999),
        ("erfc", "0.5", 0.4795001),
        ("cbrt", "27.0", 3.0),
        ("log10", "1000.0", 3.0),
        ("trunc", "-2.7", -2.0),
        ("asin", "1.0", std::f32::consts::FRAC_PI_2),
        ("atan", "1.0", std::f32::consts::FRAC_PI_4),
        ("sinh", "1.0", 1.1752012),
        ("cosh", "1.0", 1.5430806),
        ("atanh", "0.5", 0.5493061),
    ];
    for (op, value, expected) in cases {
        let found = at(op, value);
        assert!((found - expected).abs() < 1e-6, "{op}({value}) is {found}, expected {expected}");
    }
}

#[test]
fn words_are_packed_and_unpacked_lowest_bits_first() {
    let words = "%k = arith.constant dense<-3> : vector<8x128xi32>\n%l = arith.constant dense<5> : vector<8x128xi32>\n\
         %p = \"tpu.pack_elementwise\"(%k, %l) <{target_type = i16}> : (vector<8x128xi32>, vector<8x128xi32>) -> vector<8x128xi32>\n";
    let unpacked = |index: usize| {
        let unpack = format!(
            "{words}%i = \"tpu.unpack_elementwise\"(%p) <{{source_type = i16, index = {index} : i32}}> : (vector<8x128xi32>) -> vector<8x128xi32>"
        );
        integers(&unpack, 1)[0]
    };
    assert_eq!((unpacked(0), unpacked(1)), (-3.0, 5.0));
    let floats = "%p = \"tpu.pack_elementwise\"(%v, %v) <{target_type = bf16}> : (VECTOR, VECTOR) -> vector<8x128xi32>\n\
         %w = \"tpu.unpack_elementwise\"(%p) <{source_type = bf16, index = 1 : i32}> : (vector<8x128xi32>) -> VECTOR";
    // 1 to 256 are exact in bf16; 257 is rounded to even.
    assert_eq!((result(floats)[255], result(floats)[256]), (256.0, 256.0));
}

#[test]
fn gathers_pick_by_index_and_wrap_around() {
    let gather = format!(
        "{LANES}\n%k = arith.constant dense<127> : vector<8x128xi32>\n%n = arith.addi %lane, %k : vector<8x128xi32>\n\
         %w = tpu.dynamic_gather %v[%n] in [1] : VECTOR, vector<8x128xi32> -> VECTOR"
    );
    assert_eq!(result(&gather)[..3], [128.0, 1.0, 2.0]);
    let narrow = "%s = vector.extract_strided_slice %v {offsets = [0, 0], sizes = [8, 64], strides = [1, 1]} : VECTOR to vector<8x64xf32>\n";
    let wider = format!(
        "{LANES}\n{narrow}%w = tpu.dynamic_gather %s[%lane] in [1] : vector<8x64xf32>, vector<8x128xi32> -> VECTOR"
    );
    assert_eq!((result(&wider)[64], result(&wider)[128]), (1.0, 129.0));
    let rows = "%w = \"tpu.gather\"(%v) <{indices = array<i32: 7, 6, 5, 4, 3, 2, 1, 0>, dimension = 0 : i32}> : (VECTOR) -> VECTOR";
    assert_eq!((result(rows)[0], result(rows)[7 * 128]), (897.0, 1.0));
    let shuffle = "%w = \"tpu.sublane_shuffle\"(%v, %v) <{pattern = array<i32: 8, 1, 10, 3, 12, 5, 14, 0>}> : (VECTOR, VECTOR) -> VECTOR";
    assert_eq!((result(shuffle)[128], result(shuffle)[7 * 128]), (129.0, 1.0));
}

#[test]
fn indexed_accesses_touch_one_element_per_index() {
    let body = format!(
        "{LANES}\n%row = arith.constant dense<2> : vector<8x128xi32>\n\
         %w = tpu.vector_load_idx %x[%row, %lane] : NEAR[vector<8x128xi32>, vector<8x128xi32>], VECTOR,"
    );
    assert_eq!((result(&body)[0], result(&body)[129]), (257.0, 258.0));
    let sums = "vector.store %v, %a[%c0, %c0] : NEAR, VECTOR\n%z = arith.constant dense<0> : vector<8x128xi32>\n\
         %one = arith.constant dense<1.0> : VECTOR\n\
         \"tpu.vector_store_idx\"(%one, %a, %z, %z) <{add = true, operandSegmentSizes = array<i32: 1, 1, 2, 0>}> : (VECTOR, NEAR, vector<8x128xi32>, vector<8x128xi32>) -> ()\n\
         %w = vector.load %a[%c0, %c0] : NEAR, VECTOR";
    // All 1024 ones are added to the first element.
    assert_eq!(result(sums)[..2], [1025.0, 2.0]);
}

#[test]
fn a_switch_runs_the_region_of_its_case() {
    let chosen = |value: usize| {
        let body = format!(
            "%s = arith.constant {value} : index\n%one = arith.constant 1.0 : f32\n%two = arith.constant 2.0 : f32\n%nine = arith.constant 9.0 : f32\n\
             %r = scf.index_switch %s -> f32\ncase 3 {{\nscf.yield %one : f32\n}}\ncase 5 {{\nscf.yield %two : f32\n}}\ndefault {{\nscf.yield %nine : f32\n}}\n\
             %w = vector.broadcast %r : f32 to VECTOR"
        );
        result(&body)[0]
    };
    assert_eq!((chosen(3), chosen(5), chosen(4)), (1.0, 2.0, 9.0));
}

#[test]
fn a_masked_load_leaves_the_rest_undefined() {
    let body = format!(
        "{LANES}\n%half = arith.constant dense<64> : vector<8x128xi32>\n%m = arith.cmpi slt, %lane, %half : vector<8x128xi32>\n\
         %w = tpu.vector_load %x[%c0, %c0] masked %m {{strides = array<i32>}} : NEAR, VECTOR, vector<8x128xi1>"
    );
    let values = result(&body);
    assert!(values[63] == 64.0 && values[64].is_nan() && values[128] == 129.0);
}

#[test]
fn rows_of_a_narrow_memref_share_the_words_of_a_wide_one() {
    let narrow = "memref<16x128xbf16, #tpu.memory_space<vmem>>";
    let words = "memref<8x128xi32, #tpu.memory_space<vmem>>";
    let body = format!(
        "%s = memref.alloca() : {narrow}\n%one = arith.constant dense<1.0> : vector<16x128xbf16>\n\
         vector.store %one, %s[%c0, %c0] : {narrow}, vector<16x128xbf16>\n\
         %b = tpu.memref_bitcast %s : {narrow} -> {words}\n\
         %k = vector.load %b[%c0, %c0] : {words}, vector<8x128xi32>\n%sixteen = arith.constant dense<16> : vector<8x128xi32>\n\
         %i = arith.shrui %k, %sixteen : vector<8x128xi32>"
    );
    // 1.0 in bf16.
    assert_eq!(integers(&body, 1), [f32::from(0x3f80u16)]);
}

#[test]
fn integers_of_four_bits_wrap() {
    let body = "%k = arith.constant dense<7> : vector<8x128xi4>\n%l = arith.constant dense<1> : vector<8x128xi4>\n\
         %s = arith.addi %k, %l : vector<8x128xi4>\n%i = arith.extsi %s : vector<8x128xi4> to vector<8x128xi32>";
    assert_eq!(integers(body, 1), [-8.0]);
    let unsigned = body.replace("extsi", "extui");
    assert_eq!(integers(&unsigned, 1), [8.0]);
}

#[test]
fn uninitialized_elements_are_a_defect_once_they_are_used() {
    let first_half = format!(
        "{LANES}\n%half = arith.constant dense<64> : vector<8x128xi32>\n%m = arith.cmpi slt, %lane, %half : vector<8x128xi32>\n\
         %old = vector.load %a[%c0, %c0] : NEAR, VECTOR\n%new = arith.select %m, %v, %old : vector<8x128xi1>, VECTOR\n"
    );
    // Stored back where it came from, then the other half is written: all of it is defined.
    let both = format!(
        "{first_half}vector.store %new, %a[%c0, %c0] : NEAR, VECTOR\n\
         %again = vector.load %a[%c0, %c0] : NEAR, VECTOR\n%all = arith.select %m, %again, %v : vector<8x128xi1>, VECTOR\n\
         vector.store %all, %a[%c0, %c0] : NEAR, VECTOR\n%w = vector.load %a[%c0, %c0] : NEAR, VECTOR"
    );
    assert_eq!(result(&both)[..2], [1.0, 2.0]);
    let uses = [
        "%sum = arith.addf %new, %v : VECTOR\nvector.store %sum, %out[%c0, %c0] : NEAR, VECTOR",
        "vector.store %new, %out[%c0, %c0] : NEAR, VECTOR",
    ];
    for last in uses {
        let outcome = run_small(&format!("{first_half}{last}")).unwrap();
        let read = |trouble: &Trouble| matches!(trouble, Trouble::ReadOfUnwritten { read, .. } if read.line == Some(9));
        assert!(
            outcome.findings.iter().any(|finding| read(&finding.trouble)),
            "{last}: {:?}",
            outcome.findings
        );
    }
}

/// Sums blocks of 8 rows; the only grid dimension is parallel or not.
fn sum_over(semantics: &str) -> Vec<Trouble> {
    let near = "memref<8x128xf32, #tpu.memory_space<vmem>>";
    let window = |name: &str| format!("{{transform_indices = @{name}, window_bounds = array<i64: 8, 128>}}");
    let text = format!(
        "module {{
  func.func @k(%i: i32, %x: {near}, %out: {near}, %acc: {near}) attributes {{dimension_semantics = [#tpu.dimension_semantics<{semantics}>], iteration_bounds = array<i64: 4>, scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, window_params = [{}, {}]}} {{
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0 : i32
    %first = arith.cmpi eq, %i, %zero : i32
    scf.if %first {{
      %z = arith.constant dense<0.0> : vector<8x128xf32>
      vector.store %z, %acc[%c0, %c0] : {near}, vector<8x128xf32>
    }}
    %v = vector.load %x[%c0, %c0] : {near}, vector<8x128xf32>
    %old = vector.load %acc[%c0, %c0] : {near}, vector<8x128xf32>
    %new = arith.addf %old, %v : vector<8x128xf32>
    vector.store %new, %acc[%c0, %c0] : {near}, vector<8x128xf32>
    vector.store %new, %out[%c0, %c0] : {near}, vector<8x128xf32>
    return
  }}
  func.func @rows(%i: i32) -> (i32, i32) {{
    %zero = arith.constant 0 : i32
    return %i, %zero : i32, i32
  }}
}}",
        window("rows"),
        window("rows")
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let outcome = simulate(&module, &[floats(&[32, 128], |_| 1.0)], &Options::new(rates())).unwrap();
    outcome.findings.into_iter().map(|finding| finding.trouble).collect()
}

#[test]
fn a_sum_over_a_parallel_dimension_is_reported_with_both_steps() {
    assert_eq!(sum_over("arbitrary"), []);
    match &sum_over("parallel")[..] {
        [Trouble::ParallelDependence { area, dimension: 0, write, access, reads: true }] => {
            assert_eq!((&*area.buffer, &write.step[..], &access.step[..]), ("acc", &[0][..], &[1][..]));
            assert_eq!((write.line, access.line), (Some(13), Some(11)));
        }
        other => panic!("{other:?}"),
    }
}
