//! Texts that ask for more than any machine has: each gets its sentence, and soon.

mod support;

use std::time::{Duration, Instant};

use octile_core::device::tpu::TpuChip;
use octile_mosaic::{
    interpret::{Element, Options, Tensor, Trouble, simulate},
    limits::DEFAULT_OPERATIONS,
    parse,
    verify::verify,
};
use support::{NEAR, VECTOR, floats, rates, run_small, small_kernel};

/// Aliases of aliases, each twice the one before.
fn bomb(levels: usize, first: &str, twice: impl Fn(usize) -> String, rest: &str) -> String {
    let mut text = format!("{first}\n");
    (1..levels).for_each(|level| text += &format!("{}\n", twice(level)));
    text + rest
}

#[test]
fn aliases_that_expand_exponentially_are_refused() {
    let kernel = small_kernel("");
    let module =
        |attribute: &str| kernel.replacen("module", &format!("module attributes {{x = {attribute}}}"), 1);
    let texts = [
        bomb(26, "#a0 = 1 : i32", |i| format!("#a{i} = [#a{0}, #a{0}]", i - 1), &module("#a25")),
        bomb(60, "#a0 = 1 : i32", |i| format!("#a{i} = {{x = #a{0}, y = #a{0}}}", i - 1), &module("#a59")),
        bomb(40, "!t0 = i32", |i| format!("!t{i} = (!t{0}, !t{0}) -> !t{0}", i - 1), &module("!t39")),
        // One long alias, many times.
        format!(
            "#long = #tpu.thing<\"{}\">\n{}",
            "x".repeat(1 << 16),
            module(&format!("[{}]", vec!["#long"; 1 << 14].join(", ")))
        ),
        // Aliases of one another never end.
        format!("#p = [#q]\n#q = [#p]\n{}", module("#p")),
    ];
    for text in texts {
        let start = Instant::now();
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains("aliases expand") || error.contains("nesting exceeds"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[test]
fn aliases_that_are_merely_used_often_are_fine() {
    let attribute = "#tpu.thing<\"a name of usual length\">";
    let list = vec!["#name"; 10_000].join(", ");
    let kernel = small_kernel("").replacen("module", &format!("module attributes {{x = [{list}]}}"), 1);
    assert!(parse(&format!("#name = {attribute}\n{kernel}")).is_ok());
}

/// The sentence in which a kernel is refused; nothing large is allocated, or this machine would notice.
fn refusal(text: &str) -> String {
    let module = match parse(text) {
        Ok(module) => module,
        Err(error) => return error.to_string(),
    };
    verify(&module, TpuChip::named("tpu7x").unwrap());
    let error = simulate(&module, &[floats(&[8, 128], |_| 1.0)], &Options::new(rates()));
    error.err().map_or_else(|| panic!("it ran: {text}"), |error| error.to_string())
}

#[test]
fn vectors_and_tensors_have_a_largest_size() {
    let bodies = [
        "%d = tpu.iota {dimensions = array<i32: 0>} : vector<131072x131072xi32>",
        "%d = arith.constant dense<0.0> : vector<131072x131072xf32>",
        "%d = vector.broadcast %c0 : index to vector<1099511627776xindex>",
        "%d = vector.load %x[%c0, %c0] : NEAR, vector<4294967296x4294967296xf32>",
        "%d = \"tpu.repeat\"(%v) <{dimension = 0 : i32, times = 1000000000 : i32}> : (VECTOR) -> vector<8000000000x128xf32>",
        "%d = arith.constant dense<0.0> : vector<0x9223372036854775807x9223372036854775807xf32>",
        "%no = arith.constant false\nscf.if %no {\n%d = tpu.iota {dimensions = array<i32: 0>} : vector<99999999xi32>\n}",
    ];
    for body in bodies {
        let error = refusal(&small_kernel(body));
        assert!(error.contains("exceeds the limit of"), "{body}: {error}");
    }
    let error = refusal("module {\n func.func @main(%x: tensor<8x128xf32>) -> tensor<1048576x1048576xf32> {\n \
        %0 = stablehlo.constant dense<0.0> : tensor<1048576x1048576xf32>\n return %0 : tensor<1048576x1048576xf32>\n }\n}"
        .replace("stablehlo.constant dense<0.0>", "\"stablehlo.constant\"() <{value = dense<0.0> : tensor<1048576x1048576xf32>}> : () ->")
        .replace("() -> : tensor", "() -> tensor").as_str());
    assert!(error.contains("exceeds the limit of"), "{error}");
    assert!(
        refusal(&small_kernel("%d = arith.constant dense<0> : vector<18446744073709551615xi32>"))
            .contains("64 bits")
    );
}

/// The small kernel with another scratch buffer.
fn with_scratch(ty: &str, body: &str) -> String {
    small_kernel(body).replacen(&format!("%a: {NEAR}"), &format!("%a: {ty}"), 1)
}

#[test]
fn memory_is_counted_before_it_is_taken() {
    for ty in [
        "memref<1099511627776xf32, #tpu.memory_space<vmem>>",
        "memref<4294967296xf32, #tpu.memory_space<vmem>>",
        "memref<99999999999999999x9999999999999999xf32, #tpu.memory_space<vmem>>",
        "memref<1099511627776xf32, #tpu.memory_space<hbm>>",
        "memref<1099511627776x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>",
        "memref<9223372036854775807x9223372036854775807xi8, #tpu.memory_space<smem>>",
    ] {
        let error = refusal(&with_scratch(ty, ""));
        assert!(
            error.contains("cannot allocate a of shape") || error.contains("exceeds the limit of"),
            "{ty}: {error}"
        );
    }
    // One buffer is small, but a loop allocates for ever; so are the values, but there are many.
    let forever = "%s = arith.constant 1 : i32\n%n = arith.constant 2147483647 : i32\nscf.for %i = %i0 to %n step %s : i32 {\nBODY\n}";
    let near = "memref<1024x1024xf32, #tpu.memory_space<vmem>>";
    let allocates = format!("%b = memref.alloca() : {near}\nmemref.store %f, %b[%c0, %c0] : {near}");
    let body = format!("%f = arith.constant 1.0 : f32\n{}", forever.replace("BODY", &allocates));
    let error = refusal(&small_kernel(&body));
    assert!(error.contains("cannot allocate b of shape [1024, 1024]"), "{body}: {error}");
    let ty = "vector<4096x4096xf32>";
    let mut body = format!("%w0 = vector.broadcast %f : f32 to {ty}\n");
    (1..200).for_each(|i| body += &format!("%w{i} = arith.addf %w0, %w{} : {ty}\n", i - 1));
    (0..200).for_each(|i| body += &format!("%e{i} = vector.extract %w{i}[0, 0] : f32 from {ty}\nmemref.store %e{i}, %s[%c0] : memref<8xf32, #tpu.memory_space<smem>>\n"));
    let body = format!(
        "%f = arith.constant 1.0 : f32\n%s = memref.alloca() : memref<8xf32, #tpu.memory_space<smem>>\n{body}"
    );
    assert!(refusal(&small_kernel(&body)).contains("cannot allocate the values of a function"));
}

#[test]
fn what_does_not_end_is_stopped() {
    let bounds = "%s = arith.constant 1 : i32\n%n = arith.constant 2147483647 : i32\n";
    let endless = [
        format!("{bounds}scf.for %i = %i0 to %n step %s : i32 {{\nscf.for %j = %i0 to %n step %s : i32 {{\n}}\n}}"),
        format!("{bounds}\"scf.for\"(%i0, %n, %s) ({{\n^bb0(%i: i32):\n\"scf.for\"(%i0, %n, %s) ({{\n^bb0(%j: i32):\n\"scf.yield\"() : () -> ()\n}}) : (i32, i32, i32) -> ()\n\"scf.yield\"() : () -> ()\n}}) : (i32, i32, i32) -> ()"),
        "%yes = arith.constant true\n\"scf.while\"() ({\n\"scf.condition\"(%yes) : (i1) -> ()\n}, {\n\"scf.yield\"() : () -> ()\n}) : () -> ()".into(),
        format!("{bounds}scf.for %i = %i0 to %n step %s : i32 {{\nvector.store %v, %out[%c0, %c0] : NEAR, VECTOR\n}}"),
        format!("{bounds}%m = arith.constant dense<1.0> : vector<1024x1024xf32>\nscf.for %i = %i0 to %n step %s : i32 {{\n\
                 %p = tpu.matmul %m, %m, %m : vector<1024x1024xf32>, vector<1024x1024xf32>, vector<1024x1024xf32> -> vector<1024x1024xf32>\n\
                 %q = vector.extract_strided_slice %p {{offsets = [0, 0], sizes = [8, 128], strides = [1, 1]}} : vector<1024x1024xf32> to VECTOR\n\
                 vector.store %q, %out[%c0, %c0] : NEAR, VECTOR\n}}"),
    ];
    for body in endless {
        let module = parse(&small_kernel(&body)).unwrap_or_else(|error| panic!("{body}: {error}"));
        let options = Options { max_operations: 1 << 21, ..Options::new(rates()) };
        let outcome = simulate(&module, &[floats(&[8, 128], |_| 1.0)], &options).unwrap();
        assert!(!outcome.completed, "{body}");
        match &outcome.findings[..] {
            [finding] => match &finding.trouble {
                Trouble::OutOfOperations { operations, site } => {
                    assert_eq!(*operations, 1 << 21);
                    assert!(site.line.is_some_and(|line| line > 5), "{body}: {site:?}");
                }
                // An iteration that changes nothing is found at once.
                Trouble::EndlessLoop { site, .. } => {
                    assert_eq!((site.line, &*site.op), (Some(7), "scf.while"))
                }
                other => panic!("{body}: {other:?}"),
            },
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn a_grid_without_end_and_functions_that_call_themselves_are_stopped() {
    let options = Options { max_operations: 100_000, ..Options::new(rates()) };
    let x = floats(&[8, 128], |_| 1.0);
    let grid = small_kernel("vector.store %v, %out[%c0, %c0] : NEAR, VECTOR")
        .replacen("@k(", "@k(%g0: i32, %g1: i32, ", 1)
        .replacen(
            "attributes {",
            "attributes {iteration_bounds = array<i64: 1099511627775, 1099511627775>, ",
            1,
        );
    let outcome = simulate(&parse(&grid).unwrap(), std::slice::from_ref(&x), &options).unwrap();
    assert!(matches!(outcome.findings[0].trouble, Trouble::OutOfOperations { operations: 100_000, .. }));
    let calls = |count: usize| {
        let call = "func.call @f() : () -> ()\n".repeat(count);
        format!(
            "{}func.func @f() {{\n{call}return\n}}\n}}",
            small_kernel("func.call @f() : () -> ()").trim_end().strip_suffix('}').unwrap()
        )
    };
    let error =
        simulate(&parse(&calls(1)).unwrap(), std::slice::from_ref(&x), &options).unwrap_err().to_string();
    assert!(error.contains("levels deep"), "{error}");
    let chain = |i: usize| {
        format!(
            "func.func @f{i}() {{\nfunc.call @f{0}() : () -> ()\nfunc.call @f{0}() : () -> ()\nreturn\n}}\n",
            i + 1
        )
    };
    let text = format!(
        "{}{}func.func @f40() {{\nreturn\n}}\n}}",
        small_kernel("func.call @f0() : () -> ()").trim_end().strip_suffix('}').unwrap(),
        (0..40).map(chain).collect::<String>()
    );
    let outcome = simulate(&parse(&text).unwrap(), &[x], &options).unwrap();
    assert!(matches!(outcome.findings[0].trouble, Trouble::OutOfOperations { .. }), "{:?}", outcome.findings);
}

#[test]
fn copies_that_nobody_waits_for_are_counted() {
    let text = "module {
  func.func @k(%x: FAR, %out: FAR, %a: NEAR, %s: SEM) attributes {scratch_operands = 2 : i64, window_params = [{}, {}]} {
    %i0 = arith.constant 0 : i32
    %i1 = arith.constant 1 : i32
    %n = arith.constant 2147483647 : i32
    scf.for %i = %i0 to %n step %i1 : i32 {
      tpu.enqueue_dma source(%x : FAR) target(%a : NEAR) target_semaphore(%s : SEM)
    }
    return
  }
}"
    .replace("FAR", "memref<8x128xf32, #tpu.memory_space<hbm>>")
    .replace("NEAR", NEAR)
    .replace("SEM", "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>");
    let options = Options { races: false, ..Options::new(rates()) };
    let error =
        simulate(&parse(&text).unwrap(), &[floats(&[8, 128], |_| 1.0)], &options).unwrap_err().to_string();
    assert!(error.contains("DMAs in flight without a wait"), "{error}");
}

#[test]
fn numbers_at_the_edge_are_numbers() {
    let refused = [
        "%p:18446744073709551615, %q:2 = \"arith.constant\"() <{value = 1 : i32}> : () -> i32",
        "%w = tpu.strided_load %x[%c0, %c0] {strides = array<i32: 2147483647, 2147483647>} : NEAR, VECTOR\nvector.store %w, %out[%c0, %c0] : NEAR, VECTOR",
        "%big = arith.constant 9223372036854775807 : i64\n%s = \"tpu.memref_slice\"(%x, %big, %big, %big, %big) <{operandSegmentSizes = array<i32: 1, 2, 2>}> : (NEAR, i64, i64, i64, i64) -> memref<?x?xf32, #tpu.memory_space<vmem>>\nmemref.copy %s, %s : memref<?x?xf32, #tpu.memory_space<vmem>> to memref<?x?xf32, #tpu.memory_space<vmem>>",
        "%big = arith.constant -9223372036854775808 : i64\n%m = arith.constant -1 : i64\n%0 = arith.divsi %big, %m : i64\n%1 = arith.ceildivsi %big, %m : i64\n%2 = arith.floordivsi %big, %m : i64\n%3 = arith.remsi %0, %m : i64\n%4 = arith.shli %big, %m : i64\n%5 = arith.shrsi %big, %big : i64\n%6 = arith.shrui %big, %big : i64\n%7 = math.absi %big : i64\n%8 = arith.addi %1, %2 : i64\n%9 = arith.addi %3, %4 : i64\n%10 = arith.addi %5, %6 : i64\n%11 = arith.addi %7, %8 : i64\n%12 = arith.addi %9, %10 : i64\n%13 = arith.addi %11, %12 : i64\n%z = arith.constant 0 : i64\n%14 = arith.muli %13, %z : i64\n%15 = arith.divui %13, %14 : i64\n%16 = arith.cmpi eq, %15, %z : i64\ncf.assert %16, \"never\"",
    ];
    for body in refused {
        // Refused or found out of bounds: what matters is that nothing overflows.
        match run_small(body) {
            Ok(outcome) => assert!(!outcome.completed, "{body}"),
            Err(error) => assert!(!error.is_empty()),
        }
    }
}

/// Nothing runs in a grid of empty bodies, and still it does not run forever.
#[test]
fn a_kernel_without_a_body_is_refused() {
    for bounds in ["1000000000000", "1000000, 1000000"] {
        let arguments: Vec<String> =
            (0..bounds.split(',').count()).map(|number| format!("%i{number}: i32")).collect();
        let text = |body: &str| {
            format!(
                "module {{ func.func @k({}) attributes {{iteration_bounds = array<i64: {bounds}>}} {{ {body} }} }}",
                arguments.join(", ")
            )
        };
        let options = Options::new(rates());
        let error = simulate(&parse(&text("")).unwrap(), &[], &options).unwrap_err().to_string();
        assert_eq!(error, "@k does not end with a return");
        let outcome = simulate(&parse(&text("return")).unwrap(), &[], &options).unwrap();
        assert!(matches!(outcome.findings[0].trouble, Trouble::OutOfOperations { .. }));
    }
}

/// A short text does not take the memory of the machine, for a result or for all the blocks that a grid
/// writes.
#[test]
fn memory_is_given_by_what_is_known_of_the_operands() {
    let result = |elements: usize| {
        format!("module {{ func.func @k(%o: memref<{elements}xi8, #tpu.memory_space<hbm>>) {{ return }} }}")
    };
    let grid = format!(
        "module {{ func.func @k(%i: i32, %o: {NEAR}) attributes {{iteration_bounds = array<i64: 1000000>, window_params = \
         [{{transform_indices = @t, window_bounds = array<i64: 8, 128>}}]}} {{ return }} \
         func.func @t(%i: i32) -> (i32, i32) {{ %z = arith.constant 0 : i32 return %i, %z : i32, i32 }} }}"
    );
    for text in [result(3_500_000_000), result(500 << 20), grid] {
        let error = simulate(&parse(&text).unwrap(), &[], &Options::new(rates())).unwrap_err().to_string();
        assert!(
            error.contains("cannot allocate") && error.contains("these operands is 402653184"),
            "{error}"
        );
    }
    let text = result(500 << 20);
    let told = Options { output_shapes: Some(vec![vec![500 << 20]]), ..Options::new(rates()) };
    assert!(simulate(&parse(&text).unwrap(), &[], &told).is_ok());
    let least = Options { max_bytes: Some(1 << 20), ..Options::new(rates()) };
    assert!(simulate(&parse(&result(2 << 20)).unwrap(), &[], &least).is_err());
}

/// A kernel that copies 32 x 128 floats in four blocks.
fn blockwise() -> String {
    let window = "{transform_indices = @at, window_bounds = array<i64: 8, 128>}";
    format!(
        "module {{
  func.func @k(%i: i32, %x: {NEAR}, %out: {NEAR}) attributes {{iteration_bounds = array<i64: 4>, window_params = [{window}, {window}]}} {{
    %c0 = arith.constant 0 : index
    %v = vector.load %x[%c0, %c0] : {NEAR}, {VECTOR}
    vector.store %v, %out[%c0, %c0] : {NEAR}, {VECTOR}
    return
  }}
  func.func @at(%i: i32) -> (i32, i32) {{
    %c0 = arith.constant 0 : i32
    return %i, %c0 : i32, i32
  }}
}}"
    )
}

#[test]
fn blocks_count_against_their_limit_unless_the_whole_array_may_stay_in_vmem() {
    const KIB: usize = 1 << 10;
    let module = parse(&blockwise()).expect("the kernel is valid");
    let x = floats(&[32, 128], |i| i as f32);
    let found = |physical: usize, blocks: usize| {
        let (vmem_limit, vmem_blocks) = (Some(physical * KIB), Some(blocks * KIB));
        let options = Options { vmem_limit, vmem_blocks, ..Options::new(rates()) };
        let outcome = simulate(&module, std::slice::from_ref(&x), &options).expect("the kernel is judged");
        outcome.findings.first().map(|finding| match &finding.trouble {
            Trouble::MemoryExceeded { memory: "VMEM", bytes, limit, .. } => (*bytes / KIB, *limit / KIB),
            other => panic!("{other:?}"),
        })
    };
    // Two blocks of 4 KiB each for the operand and the result, which have 16 KiB.
    assert_eq!(found(64, 16), None);
    assert_eq!(found(30, 15), Some((16, 15)));
    assert_eq!(found(32, 9), None);
    assert_eq!(found(24, 7), Some((8, 7)));
    assert_eq!(found(15, 15), Some((16, 15)));
}

/// An operation around a kernel takes far longer than one of a kernel, so it counts more: a loop of 100
/// iterations spends thousands.
#[test]
fn loops_around_a_kernel_spend_the_budget_soon() {
    let text = "module {
  func.func public @main(%x: tensor<i32>) -> tensor<i32> {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %end = stablehlo.constant dense<100> : tensor<i32>
    %r = stablehlo.while(%i = %x) : tensor<i32>
    cond {
      %less = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next : tensor<i32>
    }
    return %r : tensor<i32>
  }
}";
    let module = parse(text).unwrap();
    let zero = Tensor { element: Element::Integer(4), shape: vec![], bytes: vec![0; 4].into() };
    let run = |max_operations: u64| {
        let options = Options { max_operations, ..Options::new(rates()) };
        simulate(&module, std::slice::from_ref(&zero), &options).unwrap()
    };
    assert_eq!(run(DEFAULT_OPERATIONS).outputs[0].to_f32(), [100.0]);
    let stopped = run(3_000);
    assert!(
        matches!(&stopped.findings[..], [finding] if matches!(finding.trouble, Trouble::OutOfOperations { .. }))
    );
}
