//! Kernels that JAX lowered for a TPU give what JAX's own interpreter gave, and only the broken ones have
//! findings.

mod support;

use octile_mosaic::{
    interpret::{Element, Finding, Options, Outcome, Tensor, Trouble, simulate},
    parse,
};
use support::{operands_and_result, text};

/// Kernel, tensors, and the K that its sums run over.
const GOOD: [(&str, &str, usize); 11] = [
    ("auto-aligned-128", "aligned-128", 384),
    ("auto-large-256", "large-256", 512),
    ("auto-quantized-f32", "quantized-f32", 256),
    ("dequant-128", "dequant-128", 512),
    ("dma-aligned-128", "aligned-128", 384),
    ("dma-decode-16", "decode-16", 384),
    ("dma-large-256", "large-256", 512),
    ("prefetch-aligned-128", "prefetch-128", 384),
    ("smem-aligned-128", "aligned-128", 384),
    ("smem-quantized-bf16", "quantized-bf16", 256),
    ("strip-512", "strip-512", 1024),
];

fn run(kernel: &str, operands: &[Tensor]) -> Outcome {
    let module = parse(&text("corpus", kernel)).unwrap_or_else(|error| panic!("{kernel}:{error}"));
    simulate(&module, operands, &Options::new(support::rates()))
        .unwrap_or_else(|error| panic!("{kernel}: {error}"))
}

/// Bits of the significand, the leading one included.
fn precision(element: Element) -> i32 {
    match element {
        Element::Float(octile_mosaic::Float::F32) => 24,
        Element::Float(octile_mosaic::Float::Bf16) => 8,
        other => panic!("no result is {other:?}"),
    }
}

/// The largest difference between two results, as a share of what is allowed: 2 units in the last place of
/// the type, and what binary32 sums over K in another order can differ by, relative to the largest result.
fn share_of_allowed(ours: &Tensor, theirs: &Tensor, k: usize) -> f64 {
    assert_eq!((ours.element, &ours.shape), (theirs.element, &theirs.shape));
    let (ours, theirs, element) = (ours.to_f32(), theirs.to_f32(), ours.element);
    let largest = theirs.iter().fold(0f64, |all, v| all.max(f64::from(v.abs())));
    let sums = 2.0 * (k as f64).sqrt() * 2f64.powi(-24) * largest;
    let share = |(a, b): (&f32, &f32)| {
        let ulp = 2f64.powi(f64::from(b.abs()).max(1e-30).log2().floor() as i32 - precision(element) + 1);
        let difference = (f64::from(*a) - f64::from(*b)).abs();
        // What is no number is never allowed.
        if difference.is_nan() { f64::INFINITY } else { difference / (2.0 * ulp + sums) }
    };
    ours.iter().zip(&theirs).map(share).fold(0.0, f64::max)
}

#[test]
fn good_kernels_give_the_expected_results_and_no_finding() {
    for (kernel, set, k) in GOOD {
        let (operands, expected) = operands_and_result("corpus", set);
        let outcome = run(kernel, &operands);
        assert_eq!(outcome.findings, [], "{kernel}");
        assert!(outcome.completed, "{kernel}");
        let share = share_of_allowed(&outcome.outputs[0], &expected, k);
        println!("{kernel}: {share:.3} of what is allowed, {:.0} cycles", outcome.timeline.figures.cycles);
        assert!(share <= 1.0, "{kernel}: {share} times what is allowed");
    }
}

fn findings(kernel: &str) -> Vec<Finding> {
    let (operands, _) = operands_and_result("corpus", "aligned-128");
    run(kernel, &operands).findings
}

/// The line of the first operation that contains `needle`, after line `after`.
fn line_of(kernel: &str, needle: &str, after: u32) -> u32 {
    let text = text("corpus", kernel);
    let found = text.lines().enumerate().skip(after as usize).find(|(_, line)| line.contains(needle));
    found.unwrap_or_else(|| panic!("{kernel} has no {needle} after line {after}")).0 as u32 + 1
}

/// `%arg9[%4, ...]` is the buffer of the weights, `%arg12` that of the results, `%arg14` holds the
/// semaphores.
#[test]
fn a_missing_wait_for_the_weights_is_found_where_they_are_read() {
    let kernel = "defect-no_wait_w";
    let findings = findings(kernel);
    // The first copy of the weights is started in the first step, and read by the load that feeds the
    // product.
    let started = line_of(kernel, "tpu.enqueue_dma", line_of(kernel, "tpu.memref_slice %arg9", 0));
    let read = line_of(kernel, "vector.load", line_of(kernel, "tpu.memref_slice %arg9", 205));
    match &findings[0].trouble {
        Trouble::ReadDuringCopyIn { area, copy, read: access, semaphore } => {
            assert_eq!((area.buffer.as_str(), semaphore.as_str()), ("arg9", "arg14[0, 1]"));
            assert_eq!((copy.line, access.line), (Some(started), Some(read)));
        }
        other => panic!("{other:?}"),
    }
    // Every other finding is about the same semaphores: those of slot 0 and 1 for the weights.
    for finding in &findings[1..] {
        match &finding.trouble {
            Trouble::ReadDuringCopyIn { area, .. } => assert_eq!(area.buffer, "arg9"),
            Trouble::SemaphoreLeftOver { semaphore, count, .. } => {
                assert!(semaphore == "arg14[0, 1]" || semaphore == "arg14[1, 1]");
                // Six of twelve steps use each slot.
                assert_eq!(*count, 6 * 128 * 128);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(findings.len(), 4);
}

#[test]
fn a_missing_wait_for_the_result_is_found_where_its_buffer_is_overwritten() {
    let kernel = "defect-no_wait_out";
    let findings = findings(kernel);
    let overwritten = line_of(kernel, "tpu.vector_store %arg12", 0);
    let started = line_of(kernel, "tpu.enqueue_dma", overwritten);
    match &findings[0].trouble {
        Trouble::OverwrittenDuringCopyOut { area, copy, write, semaphore } => {
            assert_eq!((area.buffer.as_str(), semaphore.as_str()), ("arg12", "arg14[0, 4]"));
            assert_eq!((copy.line, write.line), (Some(started), Some(overwritten)));
            assert_eq!((copy.step.as_slice(), write.step.as_slice()), (&[0, 0, 2][..], &[1, 0, 2][..]));
        }
        other => panic!("{other:?}"),
    }
    let left_over = |finding: &Finding| matches!(finding.trouble, Trouble::SemaphoreLeftOver { .. });
    assert!(findings[1..].iter().all(left_over), "{findings:#?}");
    assert_eq!(findings.len(), 3);
}

#[test]
fn a_prefetch_into_the_slot_in_use_is_found_where_it_starts() {
    let kernel = "defect-same_slot";
    let findings = findings(kernel);
    let first = line_of(kernel, "tpu.enqueue_dma", 0);
    let prefetch = line_of(kernel, "tpu.enqueue_dma", line_of(kernel, "scf.if %24", 0));
    match &findings[0].trouble {
        Trouble::WriteDuringCopyIn { area, copy, write, semaphore } => {
            assert_eq!((area.buffer.as_str(), semaphore.as_str()), ("arg8", "arg14[0, 0]"));
            assert_eq!((copy.line, write.line), (Some(first), Some(prefetch)));
        }
        other => panic!("{other:?}"),
    }
    let race = |finding: &Finding| {
        matches!(finding.trouble, Trouble::WriteDuringCopyIn { .. } | Trouble::ReadDuringCopyIn { .. })
    };
    let (last, races) = findings.split_last().expect("there are findings");
    assert!(races.iter().all(race), "{findings:#?}");
    // The slots go out of step, and in the end a wait has nothing to wait for.
    assert!(matches!(last.trouble, Trouble::Deadlock { .. }), "{last:?}");
}

#[test]
fn races_can_be_left_out_and_the_rest_is_still_checked() {
    let module = parse(&text("corpus", "defect-no_wait_w")).unwrap();
    let (operands, _) = operands_and_result("corpus", "aligned-128");
    let options = Options { races: false, ..Options::new(support::rates()) };
    let outcome = simulate(&module, &operands, &options).unwrap();
    let kinds = outcome.findings.iter().map(|finding| std::mem::discriminant(&finding.trouble));
    assert_eq!(kinds.collect::<std::collections::HashSet<_>>().len(), 2, "{:#?}", outcome.findings);
    // Nothing waits for the weights, so they are read before they arrive.
    assert!(outcome.outputs[0].to_f32().iter().any(|value| value.is_nan()));
}

#[test]
fn the_compiler_took_these_kernels_and_so_does_the_verifier() {
    let chip = octile_core::device::tpu::TpuChip::named("tpu7x").unwrap();
    for (kernel, ..) in GOOD {
        let module = parse(&text("corpus", kernel)).unwrap();
        assert_eq!(octile_mosaic::verify::verify(&module, chip), [], "{kernel}");
    }
}
