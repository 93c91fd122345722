//! Operations have the operands, results, regions and attributes that they are defined to have, whether they
//! run or not: what is not understood is refused, never dropped.

mod support;

use octile_mosaic::{
    interpret::{Options, simulate},
    parse,
};
use support::{NEAR, VECTOR, floats, rates, run_small, small_kernel};

fn refused(body: &str) -> String {
    match run_small(body) {
        Err(message) => message,
        Ok(outcome) => panic!("{body} ran, with {:?}", outcome.findings),
    }
}

/// Runs a module around kernels on one tensor of 8 x 128.
fn run_host(body: &str) -> Result<(), String> {
    let text =
        format!("module {{ func.func @main(%x: tensor<8x128xf32>) -> tensor<8x128xf32> {{\n{body}\n}} }}");
    let module = parse(&text).map_err(|error| error.to_string())?;
    let x = floats(&[8, 128], |i| i as f32);
    simulate(&module, &[x], &Options::new(rates())).map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_region_where_none_belongs_is_refused() {
    let store = "tpu.vector_store %out[%c0, %c0], %v {strides = array<i32>} : NEAR, VECTOR,";
    for (before, after) in [
        ("\"tpu.trace_start\"()", "{level = 10 : i32, message = \"m\"} : () -> ()"),
        ("\"tpu.trace_stop\"()", ": () -> ()"),
        ("\"tpu.delay\"(%i0)", ": (i32) -> ()"),
        ("%y = \"arith.addi\"(%i0, %i0)", ": (i32, i32) -> i32"),
        ("\"vector.store\"(%v, %out, %c0, %c0)", ": (VECTOR, NEAR, index, index) -> ()"),
    ] {
        let message = refused(&format!("{before} ({{ {store} }}) {after}"));
        assert!(message.starts_with("6:") && message.contains("expected 0 regions, found 1"), "{message}");
    }
}

#[test]
fn operands_and_results_are_counted() {
    for op in [
        "\"tpu.trace_stop\"(%i0) : (i32) -> ()",
        "\"tpu.delay\"() : () -> ()",
        "%y = \"tpu.delay\"(%i0) : (i32) -> i32",
        "%y = \"vector.store\"(%v, %out, %c0, %c0) : (VECTOR, NEAR, index, index) -> i32",
        "%y:2 = \"tpu.memref_slice\"(%x, %i0, %i0) : (NEAR, i32, i32) -> (NEAR, NEAR)",
    ] {
        let message = refused(op);
        assert!(message.starts_with("6:") && message.contains("expected"), "{op}: {message}");
    }
}

#[test]
fn what_does_not_run_is_checked_as_well() {
    let dead = refused("%y = \"arith.addf\"(%v, %v) {saturate} : (VECTOR, VECTOR) -> VECTOR");
    assert!(dead.starts_with("6:") && dead.contains("'saturate'"), "{dead}");
    let uncalled = small_kernel("").replacen(
        "module {",
        "module { func.func private @g(%a: f32) { %b = \"arith.addf\"(%a, %a) {saturate} : (f32, f32) -> f32 return }",
        1,
    );
    let x = floats(&[8, 128], |i| i as f32);
    let error = simulate(&parse(&uncalled).unwrap(), &[x], &Options::new(rates())).unwrap_err().to_string();
    assert!(error.contains("'saturate'"), "{error}");
}

#[test]
fn values_are_defined_once() {
    let message = refused("%v = arith.constant 1 : i32");
    assert_eq!(message, "6:1: %v is defined twice");
    let shadowed = "scf.for %v = %i0 to %i0 step %i0 : i32 {\n}";
    assert!(refused(shadowed).contains("%v is defined twice"));
    let siblings = "%t = arith.constant true\nscf.if %t {\n%q = arith.constant 1 : i32\n}\nscf.if %t {\n\
                    %q = arith.constant 1 : i32\n}";
    run_small(siblings).unwrap();
}

#[test]
fn semaphores_do_not_count_backwards() {
    for op in ["sem_signal", "sem_wait"] {
        let body = format!(
            "%s = \"tpu.sem_alloc\"() : () -> memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>\n\
             %n = arith.constant -1 : i32\n\
             \"tpu.{op}\"(%s, %n) <{{operandSegmentSizes = array<i32: 1, 1, 0, 0>}}> : \
             (memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> ()"
        );
        let message = refused(&body);
        assert!(message.starts_with("8:") && message.contains("negative: -1"), "{message}");
    }
}

#[test]
fn a_cast_keeps_the_layout() {
    for layout in ["strided<[1, 8]>", "strided<[128, 1], offset: 7>", "affine_map<(d0, d1) -> (d1, d0)>"] {
        for op in ["memref.cast", "tpu.reinterpret_cast", "tpu.erase_memref_layout"] {
            let other = format!("memref<8x128xf32, {layout}, #tpu.memory_space<vmem>>");
            let message = refused(&format!("%y = \"{op}\"(%a) : (NEAR) -> {other}"));
            assert!(message.contains("keep shape, element type and layout"), "{message}");
        }
    }
}

#[test]
fn a_product_has_one_set_of_dimensions_and_one_shape() {
    const NUMBERS: &str =
        "dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>";
    let product = |attributes: &str, result: &str| {
        format!(
            "%z = arith.constant dense<0.0> : {result}\n\
             %p = \"tpu.matmul\"(%v, %v, %z) {{{attributes}}} : (VECTOR, VECTOR, {result}) -> {result}"
        )
    };
    run_small(&product(NUMBERS, "vector<8x8xf32>")).unwrap();
    for flag in ["transpose_lhs", "transpose_rhs"] {
        run_small(&product(&format!("{NUMBERS}, {flag} = false"), "vector<8x8xf32>")).unwrap();
        let message = refused(&product(&format!("{NUMBERS}, {flag} = true"), "vector<8x8xf32>"));
        assert!(message.starts_with("7:") && message.contains(flag), "{message}");
    }
    for shape in ["vector<64xf32>", "vector<4x16xf32>", "vector<1x8x8xf32>"] {
        let message = refused(&product(NUMBERS, shape));
        assert!(message.contains("does not match the accumulator"), "{message}");
    }
}

#[test]
fn a_dot_has_dimensions_that_can_be_read_and_one_shape() {
    let dot = |numbers: &str, result: &str| {
        run_host(&format!(
            "%p = \"stablehlo.dot_general\"(%x, %x) {{dot_dimension_numbers = #stablehlo.dot<{numbers}>}} : \
             (tensor<8x128xf32>, tensor<8x128xf32>) -> {result} return %x : tensor<8x128xf32>"
        ))
    };
    let numbers = "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]";
    dot(numbers, "tensor<8x8xf32>").unwrap();
    assert!(dot(numbers, "tensor<64xf32>").unwrap_err().contains("does not give tensor<64xf32>"));
    for damaged in ["[1, x]", "[-1]", "1"] {
        let numbers = format!("lhs_contracting_dimensions = [1], rhs_contracting_dimensions = {damaged}");
        assert!(dot(&numbers, "tensor<8x8xf32>").unwrap_err().contains("dot_dimension_numbers"), "{damaged}");
    }
    let unknown = format!("{numbers}, more = [1]");
    assert!(dot(&unknown, "tensor<8x8xf32>").unwrap_err().contains("dot_dimension_numbers"));
}

#[test]
fn a_reduction_has_a_region_of_its_types() {
    let reduce = |region: &str| {
        run_host(&format!(
            "%z = \"stablehlo.constant\"() {{value = dense<0.0> : tensor<f32>}} : () -> tensor<f32>\n\
             %p = \"stablehlo.reduce\"(%x, %z) ({{ {region} }}) \
             {{dimensions = array<i64: 1>}} : (tensor<8x128xf32>, tensor<f32>) -> tensor<8xf32>\n\
             return %x : tensor<8x128xf32>"
        ))
    };
    let back = |name: &str, ty: &str| format!("\"stablehlo.return\"(%{name}) : ({ty}) -> ()");
    let two = "^bb0(%a: tensor<f32>, %b: tensor<f32>):";
    let add = "%s = \"stablehlo.add\"(%b, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>";
    reduce(&format!("{two} {add} {}", back("s", "tensor<f32>"))).unwrap();
    reduce(&format!("{two} {}", back("z", "tensor<f32>"))).unwrap();
    for region in [
        format!("^bb0(%a: tensor<f32>): {}", back("a", "tensor<f32>")),
        format!("{two} {}", back("x", "tensor<8x128xf32>")),
        format!("{two} {add}"),
    ] {
        let message = reduce(&region).unwrap_err();
        assert!(message.contains("unexpected types"), "{message}");
    }
}

#[test]
fn a_call_is_told_only_what_is_known() {
    let body = "bW9kdWxlIHt9";
    let call = |config: &str| {
        run_host(&format!(
            "%p = \"stablehlo.custom_call\"(%x) {{call_target_name = \"tpu_custom_call\", backend_config = \
             \"{{\\22custom_call_config\\22: {{\\22body\\22: \\22{body}\\22{config}}}}}\"}} : \
             (tensor<8x128xf32>) -> tensor<8x128xf32> return %p : tensor<8x128xf32>"
        ))
        .unwrap_err()
    };
    assert!(call(", \\22needs_layout_passes\\22: true").contains("no function"));
    let message = call(", \\22output_scale\\22: 2");
    assert!(message.contains("custom_call_config.output_scale = 2 is not supported"), "{message}");
}

#[test]
fn slices_and_strides_beyond_all_bounds_do_not_overflow() {
    let slice = |offsets: &str, strides: &str, result: &str| {
        run_small(&format!(
            "%y = \"vector.extract_strided_slice\"(%v) {{offsets = [{offsets}], sizes = [], strides = [{strides}]}} : \
             ({VECTOR}) -> {result}"
        ))
    };
    slice("0, 0", "9223372036854775807, 1", "vector<1x128xf32>").unwrap();
    slice("9223372036854775807, 0", "1, 1", "vector<0x128xf32>").unwrap_err();
    let far = format!(
        "%n = arith.constant 9223372036854775807 : index\n\
         %y = \"tpu.memref_slice\"(%x, %c0, %c0, %n, %n) {{operandSegmentSizes = array<i32: 1, 2, 2>}} : \
         ({NEAR}, index, index, index, index) -> memref<?x?xf32, #tpu.memory_space<vmem>>\n\
         %w = \"tpu.memref_slice\"(%y, %n, %n) : (memref<?x?xf32, #tpu.memory_space<vmem>>, index, index) -> {NEAR}\n\
         %u = \"vector.load\"(%w, %c0, %c0) : ({NEAR}, index, index) -> {VECTOR}\n\
         tpu.vector_store %out[%c0, %c0], %u {{strides = array<i32>}} : {NEAR}, {VECTOR},"
    );
    let outcome = run_small(&far).unwrap();
    assert!(!outcome.completed && !outcome.findings.is_empty());
}
