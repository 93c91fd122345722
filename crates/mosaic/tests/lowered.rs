//! Kernels of many kinds as JAX lowers them, with what numpy computes from the same operands. Three of them
//! are wrong on purpose.

mod support;

use octile_core::device::tpu::TpuChip;
use octile_mosaic::{
    interpret::{Element, Options, Outcome, SimulateError, Tensor, Trouble, check_ops, simulate},
    parse,
};
use support::{folder, tensors, text};

fn kernels() -> Vec<String> {
    let files = std::fs::read_dir(folder("lowered")).expect("the folder of kernels is there");
    let mut names: Vec<String> = files
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mlir"))
        .map(|path| path.file_stem().expect("a file has a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn has_tensors(kernel: &str) -> bool {
    folder("lowered").join(format!("{kernel}.safetensors.gz")).exists()
}

/// The operands in the order of the kernel's arguments, not of the function around it: the extents of its
/// grid and its scalar-prefetch operands come first.
fn in_call_order(kernel: &str, mut operands: Vec<Tensor>) -> Vec<Tensor> {
    if ["dynamic_grid", "paged", "scalar_prefetch"].contains(&kernel) {
        operands.sort_by_key(|tensor| matches!(tensor.element, Element::Float(_)));
    }
    operands
}

fn run(kernel: &str) -> Result<(Outcome, Vec<Tensor>), SimulateError> {
    let module = parse(&text("lowered", kernel)).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let (operands, expected): (Vec<_>, Vec<_>) =
        tensors("lowered", kernel).into_iter().partition(|(name, _)| !name.starts_with("out"));
    let operands = in_call_order(kernel, operands.into_iter().map(|(_, tensor)| tensor).collect());
    let expected: Vec<Tensor> = expected.into_iter().map(|(_, tensor)| tensor).collect();
    let shapes = (!expected.is_empty()).then(|| expected.iter().map(|t| t.shape.clone()).collect());
    let chip = TpuChip::named("tpu7x").expect("the chip is known");
    let options = Options { output_shapes: shapes, ..Options::for_chip(chip) };
    Ok((simulate(&module, &operands, &options)?, expected))
}

/// Kernels that are wrong, and the one that draws random bits.
const NOT_COMPARED: [&str; 4] = ["oob_vmem", "revisit_output", "vmem_512MiB", "prng"];

#[test]
fn lowered_kernels_give_what_numpy_gives() {
    let kernels = kernels();
    assert_eq!(kernels.len(), 44);
    for kernel in kernels.iter().filter(|kernel| !NOT_COMPARED.contains(&kernel.as_str())) {
        if !has_tensors(kernel) {
            let module = parse(&text("lowered", kernel)).unwrap_or_else(|error| panic!("{kernel}: {error}"));
            assert_eq!(check_ops(&module), [], "{kernel}");
            continue;
        }
        let (outcome, expected) = run(kernel).unwrap_or_else(|error| panic!("{kernel}: {error}"));
        assert_eq!((outcome.findings, outcome.completed), (Vec::new(), true), "{kernel}");
        assert!(outcome.outputs.len() == expected.len() || expected.is_empty(), "{kernel}");
        for (ours, theirs) in outcome.outputs.iter().zip(&expected) {
            for (index, (a, b)) in ours.to_f32().into_iter().zip(theirs.to_f32()).enumerate() {
                let alike = (a - b).abs() <= 1e-5 * (1.0 + b.abs()) || a.is_nan() && b.is_nan() || a == b;
                assert!(alike, "{kernel}: element {index} is {a}, expected {b}");
            }
        }
    }
}

#[test]
fn random_bits_run_and_are_marked_as_such() {
    let (outcome, _) = run("prng").expect("the kernel runs");
    assert!(outcome.completed && outcome.has_random_bits());
    let bits = outcome.outputs[0].to_f32();
    assert!(bits.iter().any(|&value| value != bits[0]));
}

#[test]
fn what_a_kernel_prints_is_kept_with_its_step() {
    let (outcome, _) = run("debug_print").expect("the kernel runs");
    let prints: Vec<(&[i64], &str)> =
        outcome.prints.iter().map(|print| (&print.site.step[..], &print.text[..])).collect();
    assert_eq!(prints, [(&[0][..], "i = 0"), (&[1][..], "i = 1")]);
    assert_eq!(outcome.prints[0].site.line, Some(4));
}

#[test]
fn a_result_whose_block_is_visited_again_is_reported_with_both_steps() {
    let (outcome, _) = run("revisit_output").expect("the kernel runs");
    match &outcome.findings[..] {
        [finding] => match &finding.trouble {
            Trouble::OutputRevisited { area, block, left, access } => {
                assert_eq!((&*area.buffer, &block[..], &left[..]), ("arg2", &[0, 0][..], &[0][..]));
                assert_eq!((access.line, &access.step[..]), (Some(10), &[2][..]));
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn buffers_beyond_the_memory_of_the_chip_are_reported_with_their_size() {
    let (outcome, _) = run("vmem_512MiB").expect("the kernel is judged");
    assert!(!outcome.completed);
    match &outcome.findings[..] {
        [finding] => match &finding.trouble {
            Trouble::MemoryExceeded { memory, bytes, limit, buffers, site: None } => {
                assert_eq!((*memory, *limit), ("VMEM", 64 << 20));
                assert!((512 << 20..513 << 20).contains(bytes), "{bytes}");
                assert_eq!(buffers[0], ("arg2".to_owned(), 512 << 20));
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_access_behind_the_end_of_a_window_is_reported_with_its_step() {
    let (outcome, _) = run("oob_vmem").expect("the kernel runs");
    assert!(!outcome.completed);
    assert!(matches!(
        &outcome.findings[0].trouble,
        Trouble::OutOfBounds { buffer, index: 60, size: 8, extent: 64, access, .. }
            if buffer == "arg2" && access.step == [7] && access.line == Some(10)
    ));
}
