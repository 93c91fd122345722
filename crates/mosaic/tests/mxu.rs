//! Explicit control of the MXUs: results, state, and what is reported when a kernel takes from an MXU what it
//! does not hold.

#[path = "mxu/kernel.rs"]
mod kernel;
mod support;

use kernel::{Kernel, SIDE, number, operands, tensor};
use octile_core::device::tpu::TpuChip;
use octile_mosaic::{
    Float,
    interpret::{MxuMisuse, Options, Site, Trouble, simulate},
    parse,
    verify::{Rule, verify},
};
use support::{floats, rates, text};

/// Rows of a slice of `%x` times a slice of `%w`, transposed or not.
fn product(rows: usize, [x_column, w_column]: [usize; 2], transpose: bool) -> Vec<f32> {
    let [x, w] = operands(Float::F32).map(|tensor| tensor.to_f32());
    let weight = |k: usize, j: usize| match transpose {
        true => w[j * 512 + w_column + k],
        false => w[k * 512 + w_column + j],
    };
    let sum = |i: usize, j: usize| (0..SIDE).map(|k| x[i * 512 + x_column + k] * weight(k, j)).sum();
    (0..rows * SIDE).map(|place| sum(place / SIDE, place % SIDE)).collect()
}

fn sum(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Lowered by JAX 0.10.2 from `block_scaled.py`: both MXUs, weights dequantized while the MXUs multiply, and
/// state across a loop, branches and waits.
#[test]
fn a_kernel_that_jax_lowered_gives_the_exact_product() {
    let module = parse(&text("mxu", "block_scaled")).unwrap();
    let (m, n, k) = (256, 512, 512);
    let scales = [0.5, 2.0, 1.0, 0.25];
    let x = tensor(&[m, k], Float::Bf16, number);
    let w = tensor(&[n, k], Float::F8E4M3FN, |i| number(i + i / k));
    let operands = [floats(&[2, 2], |i| scales[i]), x.clone(), w.clone()];
    let outcome = simulate(&module, &operands, &Options::new(rates())).unwrap();
    assert_eq!((outcome.findings, outcome.completed), (Vec::new(), true));
    assert_eq!(outcome.timeline.figures.products, (m * n * k) as u64);
    assert!(outcome.timeline.figures.matmul_cycles > 0.0);
    let (x, w) = (x.to_f32(), w.to_f32());
    let scaled: Vec<f32> =
        w.iter().enumerate().map(|(i, w)| w * scales[i / k / 256 * 2 + i % k / 256]).collect();
    let sum = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * scaled[j * k + l]).sum::<f32>();
    let expected: Vec<f32> = (0..m * n).map(|place| sum(place / n, place % n)).collect();
    assert_eq!(outcome.outputs[0].to_f32(), expected);
    let chip = TpuChip::named("tpu7x").unwrap();
    for kernel in octile_mosaic::interpret::embedded_kernels(&module).unwrap() {
        assert_eq!(verify(&kernel.module, chip), []);
    }
}

#[test]
fn every_type_is_multiplied_by_weights_or_their_transpose() {
    for float in [Float::F32, Float::Bf16, Float::F8E4M3FN, Float::F8E5M2] {
        for transpose in [false, true] {
            let kernel = Kernel::new(float)
                .push("w", 0, [0, 0], transpose)
                .multiply("x", 256, 256, [0, 0], Some(0))
                .pop(256, [0, 0], 0);
            assert_eq!(kernel.result(), product(256, [256, 0], transpose), "{float}, {transpose}");
            // f32 is rounded to bf16, and the reader is told.
            assert_eq!(kernel.run().notes.is_empty(), float != Float::F32);
        }
    }
}

#[test]
fn slices_of_k_add_up_while_other_weights_are_staged() {
    let kernel = Kernel::new(Float::Bf16)
        .push("w", 0, [1, 0], true)
        .push("w", 256, [1, 1], true)
        .multiply("x", 256, 0, [1, 192], Some(0))
        .multiply("x", 256, 256, [1, 192], Some(1))
        .pop(256, [1, 192], 0);
    assert_eq!(kernel.result(), sum(&product(256, [0, 0], true), &product(256, [256, 256], true)));
}

#[test]
fn mxus_and_accumulators_are_independent() {
    // 64 rows take 16 addresses; what is popped may begin and end elsewhere than what was added.
    let kernel = Kernel::new(Float::Bf16)
        .push("w", 0, [0, 0], true)
        .push("w", 256, [1, 0], true)
        .multiply("x", 64, 0, [0, 0], Some(0))
        .multiply("x", 64, 0, [1, 0], Some(0))
        .multiply("x", 64, 256, [0, 16], None)
        .multiply("x", 64, 256, [1, 16], None)
        .pop(128, [0, 0], 0)
        .pop(64, [1, 16], 192)
        .pop(64, [1, 0], 128);
    let parts = [[0, 0], [256, 0], [0, 256], [256, 256]].map(|columns| product(64, columns, true));
    assert_eq!(kernel.result(), parts.concat());
}

#[test]
fn popped_accumulators_begin_at_zero() {
    let kernel = Kernel::new(Float::F8E4M3FN)
        .push("w", 0, [0, 0], false)
        .multiply("x", 128, 0, [0, 8], Some(0))
        .pop(128, [0, 8], 128)
        .multiply("x", 128, 256, [0, 8], None)
        .pop(128, [0, 8], 0);
    assert_eq!(kernel.result(), [product(128, [256, 0], false), product(128, [0, 0], false)].concat());
}

#[test]
fn state_lasts_across_loops_branches_and_grid_steps() {
    // Step 0 pushes and multiplies twice, step 1 pops.
    let rounds = "%z = arith.constant 0 : i32\n%two = arith.constant 2 : i32\n%one = arith.constant 1 : i32\n\
                  %first = arith.cmpi eq, %step, %z : i32\n%last = arith.cmpi eq, %step, %one : i32\n";
    let mut kernel = Kernel::new(Float::Bf16);
    kernel.attributes =
        "dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2>, ";
    let kernel = kernel
        .line(rounds)
        .line("scf.if %first {")
        .push("w", 0, [0, 1], true)
        .line("scf.for %i = %z to %two step %one : i32 {\n%starts = arith.cmpi eq, %i, %z : i32")
        .line("scf.if %starts {")
        .multiply("x", 256, 0, [0, 0], Some(1))
        .line("} else {")
        .multiply("x", 256, 0, [0, 0], None)
        .line("}\n}\n}")
        .line("scf.if %last {")
        .pop(256, [0, 0], 0)
        .line("}");
    let once = product(256, [0, 0], true);
    assert_eq!(kernel.result(), sum(&once, &once));
}

/// The only finding of a kernel that misuses an MXU, and the line of its operation in the body.
fn misuse(kernel: Kernel) -> (MxuMisuse, String, u32) {
    let findings = kernel.findings();
    match &findings[..] {
        [Trouble::MxuMisuse { misuse, part, access: Site { line: Some(line), .. }, .. }] => {
            (*misuse, part.clone(), line - 4)
        }
        other => panic!("{other:?}\n{}", kernel.text()),
    }
}

fn staged() -> Kernel {
    Kernel::new(Float::Bf16).push("w", 0, [0, 0], true)
}

#[test]
fn weights_must_be_loaded_before_others_are_pushed() {
    let kernel =
        staged().push("w", 256, [0, 0], true).multiply("x", 256, 0, [0, 0], Some(0)).pop(256, [0, 0], 0);
    let findings = kernel.findings();
    let [Trouble::MxuMisuse { access, earlier: Some(earlier), .. }] = &findings[..] else {
        panic!("{findings:?}")
    };
    assert_eq!((access.line, earlier.line), (Some(8), Some(6)));
    assert_eq!(misuse(kernel), (MxuMisuse::StagingFull, "staging register 0 of MXU 0".into(), 4));
    // What is never loaded is also left behind: two findings of one push.
    let left = staged().push("w", 256, [0, 0], true).findings();
    let has = |wanted: MxuMisuse| {
        left.iter().any(|trouble| matches!(trouble, Trouble::MxuMisuse { misuse, .. } if *misuse == wanted))
    };
    assert!(has(MxuMisuse::StagingFull) && has(MxuMisuse::WeightsLeft), "{left:?}");
}

#[test]
fn weights_must_be_pushed_before_they_are_loaded() {
    let empty = staged().multiply("x", 256, 0, [0, 0], Some(1));
    assert_eq!(misuse(empty), (MxuMisuse::StagingEmpty, "staging register 1 of MXU 0".into(), 4));
    let taken = staged().multiply("x", 256, 0, [0, 0], Some(0)).multiply("x", 256, 256, [0, 0], Some(0));
    assert_eq!(misuse(taken), (MxuMisuse::StagingEmpty, "staging register 0 of MXU 0".into(), 6));
    let other = staged().multiply("x", 256, 0, [1, 0], Some(0));
    assert_eq!(misuse(other), (MxuMisuse::StagingEmpty, "staging register 0 of MXU 1".into(), 4));
    let none = staged().multiply("x", 256, 0, [0, 0], None);
    assert_eq!(misuse(none), (MxuMisuse::NoWeights, "MXU 0".into(), 4));
}

#[test]
fn only_what_was_added_is_popped() {
    let twice = || {
        let kernel = staged().multiply("x", 256, 0, [0, 0], Some(0)).pop(256, [0, 0], 0);
        kernel.pop(256, [0, 0], 0)
    };
    assert_eq!(misuse(twice()), (MxuMisuse::NothingAdded, "accumulators 0 to 63 of MXU 0".into(), 7));
    assert_eq!(twice().run().outputs[0].to_f32(), vec![0.0; SIDE * SIDE]);
    let part = staged().multiply("x", 128, 0, [0, 0], Some(0)).pop(256, [0, 0], 0);
    assert_eq!(misuse(part), (MxuMisuse::NothingAdded, "accumulators 32 to 63 of MXU 0".into(), 5));
}

#[test]
fn nothing_may_be_left_in_the_mxus() {
    let filled = |kernel: Kernel| kernel.multiply("x", 256, 0, [0, 0], Some(0)).pop(256, [0, 0], 0);
    let weights = filled(staged()).push("w", 256, [1, 1], false);
    assert_eq!(misuse(weights), (MxuMisuse::WeightsLeft, "staging register 1 of MXU 1".into(), 8));
    let sums = filled(staged()).multiply("x", 128, 0, [0, 100], None);
    assert_eq!(misuse(sums), (MxuMisuse::SumsLeft, "accumulators 100 to 131 of MXU 0".into(), 8));
    // Two additions in two places are two findings; loaded weights may stay.
    let two = filled(staged()).multiply("x", 64, 0, [0, 0], None).multiply("x", 64, 0, [0, 32], None);
    assert_eq!(two.findings().len(), 2);
}

/// Why a kernel with one such operation is refused before it runs.
fn refusal(op: &str) -> String {
    let body = "%v = vector.load %x[%c0, %c0] : memref<256x512xbf16, #tpu.memory_space<vmem>>, \
                vector<256x256xbf16>\n%e = vector.load %x[%c0, %c0] : memref<256x512xbf16, \
                #tpu.memory_space<vmem>>, vector<24x256xbf16>\n%n = arith.constant dense<1> : \
                vector<256x256xi8>";
    let error = Kernel::new(Float::Bf16).line(body).line(op).try_run().unwrap_err();
    let (place, message) = error.split_once(": ").unwrap();
    assert_eq!(place, "8:1", "{error}");
    message.to_owned()
}

#[test]
fn wrong_shapes_and_attributes_are_refused_before_anything_runs() {
    let push = |attributes: &str, value: &str, ty: &str| {
        refusal(&format!("\"tpu.matmul_push_rhs\"({value}) {{{attributes}}} : ({ty}) -> ()"))
    };
    let (square, good) = ("vector<256x256xbf16>", "mxu_index = 0 : i32, staging_register = 0 : i32");
    assert_eq!(
        push("mxu_index = 2 : i32, staging_register = 0 : i32", "%v", square),
        "tpu.matmul_push_rhs: mxu_index = 2 is out of range: a core has MXUs 0 to 1"
    );
    assert_eq!(
        push("mxu_index = 0 : i32, staging_register = -1 : i32", "%v", square),
        "tpu.matmul_push_rhs: staging_register = -1 is out of range: an MXU has staging registers 0 to 1"
    );
    assert_eq!(
        push("staging_register = 0 : i32", "%v", square),
        "tpu.matmul_push_rhs: attribute 'mxu_index' is missing"
    );
    assert_eq!(
        push(good, "%e", "vector<24x256xbf16>"),
        "tpu.matmul_push_rhs: expected weights of 256 x 256, as large as the MXU, found vector<24x256xbf16>"
    );
    assert_eq!(
        push(good, "%n", "vector<256x256xi8>"),
        "tpu.matmul_push_rhs: operands of type vector<256x256xi8> are not supported: only f32, bf16, \
         f8E4M3FN and f8E5M2"
    );
    assert_eq!(
        push(&format!("{good}, depth = 1 : i32"), "%v", square),
        "tpu.matmul_push_rhs: attribute 'depth' = 1 : i32 is not supported"
    );
    assert_eq!(
        refusal("\"tpu.matmul_push_rhs\"() {mxu_index = 0 : i32, staging_register = 0 : i32} : () -> ()"),
        "tpu.matmul_push_rhs: expected 1 operands and 0 results, found 0 and 0"
    );
    let multiply = |attributes: &str, value: &str, ty: &str| {
        refusal(&format!("\"tpu.matmul_acc_lhs\"({value}) {{{attributes}}} : ({ty}) -> ()"))
    };
    assert_eq!(
        multiply("acc = 0 : i32, mxu_index = 0 : i32", "%e", "vector<24x256xbf16>"),
        "tpu.matmul_acc_lhs: expected a multiple of 16 rows of 256 columns, found vector<24x256xbf16>"
    );
    assert_eq!(
        multiply("acc = 194 : i32, mxu_index = 0 : i32", "%v", square),
        "tpu.matmul_acc_lhs: 256 rows from accumulator 194 on take addresses up to 257, but an MXU has 256"
    );
    assert_eq!(
        multiply("acc = 1 : i32, mxu_index = 0 : i32", "%v", square),
        "tpu.matmul_acc_lhs: acc = 1 must be a multiple of 2: 8 rows take 2"
    );
    assert_eq!(
        multiply("acc = true, mxu_index = 0 : i32", "%v", square),
        "tpu.matmul_acc_lhs: attribute 'acc' is not an integer: true"
    );
    assert_eq!(
        multiply("acc = 0 : i32, load_staged_rhs = 2 : i32, mxu_index = 0 : i32", "%v", square),
        "tpu.matmul_acc_lhs: load_staged_rhs = 2 is out of range: an MXU has staging registers 0 to 1"
    );
    let pop = |address: i64, ty: &str| {
        refusal(&format!(
            "%p = \"tpu.matmul_pop\"() {{acc = {address} : i32, mxu_index = 0 : i32}} : () -> {ty}"
        ))
    };
    assert_eq!(
        pop(0, "vector<256x128xf32>"),
        "tpu.matmul_pop: expected a multiple of 8 rows of 256 columns, found vector<256x128xf32>"
    );
    assert_eq!(
        pop(256, "vector<8x256xf32>"),
        "tpu.matmul_pop: acc = 256 is out of range: an MXU has accumulators 0 to 255"
    );
    assert_eq!(
        pop(0, "vector<8x256xi32>"),
        "tpu.matmul_pop: sums of type vector<8x256xi32> are not supported: only f32"
    );
}

/// A kernel that writes rows of `%a` and then loads all of it.
fn half_written(kernel: Kernel) -> Kernel {
    kernel.load("x", 128, 0).line(
        "vector.store %v1, %a[%c0, %c0] : memref<256x512xbf16, #tpu.memory_space<vmem>>, \
         vector<128x256xbf16>",
    )
}

fn is_uninitialized(findings: &[Trouble]) -> bool {
    matches!(findings, [Trouble::ReadOfUnwritten { area, .. }] if area.buffer == "a")
}

#[test]
fn uninitialized_operands_are_reported_once_they_reach_a_result() {
    let begin = || half_written(Kernel::new(Float::Bf16));
    // Rows 128 to 255 of the left operand: only rows that are dropped depend on them.
    let rows = || begin().push("w", 0, [0, 0], true).multiply("a", 256, 0, [0, 0], Some(0));
    let dropped = "%drop = \"tpu.matmul_pop\"() {acc = 32 : i32, mxu_index = 0 : i32} : () -> \
                   vector<128x256xf32>";
    let good = rows().pop(128, [0, 0], 0).line(dropped).multiply("x", 128, 0, [0, 0], None);
    assert_eq!(good.pop(128, [0, 0], 128).findings(), []);
    assert!(is_uninitialized(&rows().pop(256, [0, 0], 0).findings()));
    // Where they were popped, the accumulators begin at zero again.
    let again = rows().pop(128, [0, 0], 0).line(dropped).multiply("x", 128, 0, [0, 32], None);
    assert_eq!(again.pop(128, [0, 32], 128).findings(), []);
    // Rows without any pass through a decision, though others of the same matmul have some.
    let kept = "%yes = arith.constant true\n%r = scf.if %yes -> (vector<128x256xf32>) {\n%p = \
                \"tpu.matmul_pop\"() {acc = 0 : i32, mxu_index = 0 : i32} : () -> vector<128x256xf32>\n\
                scf.yield %p : vector<128x256xf32>\n} else {\n%q = arith.constant dense<0.0> : \
                vector<128x256xf32>\nscf.yield %q : vector<128x256xf32>\n}\nvector.store %r, %out[%c0, %c0] : \
                memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x256xf32>";
    let through = rows().line(kept).line(dropped).multiply("x", 128, 0, [0, 0], None);
    assert_eq!(through.pop(128, [0, 0], 128).findings(), []);
    // An element of the weights spoils a column: every row of the result.
    for transpose in [false, true] {
        let weights = begin().push("a", 0, [0, 0], transpose).multiply("x", 256, 0, [0, 0], Some(0));
        assert!(is_uninitialized(&weights.pop(256, [0, 0], 0).findings()));
    }
    // Transposed weights have uninitialized columns 128 to 255; the others are exact.
    let columns = begin().push("a", 0, [0, 0], true).multiply("x", 256, 0, [0, 0], Some(0)).line(
        "%p = \"tpu.matmul_pop\"() {acc = 0 : i32, mxu_index = 0 : i32} : () -> vector<256x256xf32>\n\
         %l = vector.extract_strided_slice %p {offsets = [0, 0], sizes = [256, 128], strides = [1, 1]} : \
         vector<256x256xf32> to vector<256x128xf32>\n\
         vector.store %l, %out[%c0, %c0] : memref<256x256xf32, #tpu.memory_space<vmem>>, \
         vector<256x128xf32>\n\
         vector.store %l, %out[%c0, %c128] : memref<256x256xf32, #tpu.memory_space<vmem>>, \
         vector<256x128xf32>",
    );
    assert_eq!(columns.findings(), []);
}

#[test]
fn other_chips_are_refused_by_name() {
    let kernel = staged().multiply("x", 256, 0, [0, 0], Some(0)).pop(256, [0, 0], 0);
    let module = parse(&kernel.text()).unwrap();
    for chip in ["v6e", "v5e", "v5p", "v4"] {
        let chip = TpuChip::named(chip).unwrap();
        let error = simulate(&module, &operands(Float::Bf16), &Options::for_chip(chip)).unwrap_err();
        let says = "the chip does not let kernels control its MXUs; tpu7x does";
        assert_eq!(error.to_string(), format!("6:1: tpu.matmul_push_rhs: {says}"));
        let violations = verify(&module, chip);
        assert_eq!(violations.len(), 3, "{violations:?}");
        assert!(violations.iter().all(|violation| violation.rule == Rule::Chip));
    }
    assert_eq!(verify(&module, TpuChip::named("tpu7x").unwrap()), []);
}

#[test]
fn custom_forms_mean_what_generic_ones_mean() {
    let generic = staged().multiply("x", 256, 0, [0, 0], Some(0)).pop(256, [0, 0], 0);
    let text = generic.text();
    let custom = text
        .replace("\"tpu.matmul_push_rhs\"(%v1) {", "tpu.matmul_push_rhs %v1 {")
        .replace("} : (vector<256x256xbf16>) -> ()", "} : vector<256x256xbf16>")
        .replace("\"tpu.matmul_acc_lhs\"(%v2) {acc = 0 : i32, ", "tpu.matmul_acc_lhs 0, %v2 {")
        .replace("\"tpu.matmul_pop\"() {acc = 0 : i32, ", "tpu.matmul_pop 0 {")
        .replace("} : () -> vector<256x256xf32>", "} : vector<256x256xf32>");
    assert!(!custom.contains('"'), "{custom}");
    let [custom, parsed] = [&custom, &text].map(|text| parse(text).unwrap().to_string());
    assert_eq!(custom, parsed);
    // The dialect's own form leaves register 0 out.
    let short = parse(&text.replace("staging_register = 0 : i32, ", "")).unwrap();
    let outcome = simulate(&short, &operands(Float::Bf16), &Options::new(rates())).unwrap();
    assert_eq!((&outcome.findings[..], outcome.outputs[0].to_f32()), (&[][..], generic.result()));
}
