//! Code that is there and could not be followed is no proof, and no reason to be silent either.

mod common;

use common::load as read;
use octile_core::device::tpu::TpuChip;
use octile_dump::{
    checks::{CheckId, Finding, Verdict, check},
    facts::{Facts, Source},
};

const CASE: &str = "512-qb128-aligned-v3-tpu7x";

fn gathered(files: &[(&str, &str)]) -> Facts {
    let sources: Vec<_> = files.iter().map(|&(name, text)| Source { name, bytes: text.as_bytes() }).collect();
    Facts::gather(&sources)
}

fn findings(files: &[(&str, &str)]) -> Vec<Finding> {
    check(&gathered(files), TpuChip::named("tpu7x").ok())
}

fn finding(files: &[(&str, &str)], id: CheckId) -> Finding {
    findings(files).into_iter().find(|finding| finding.check == id).unwrap()
}

#[test]
fn a_kernel_that_multiplies_nothing_is_refuted_at_every_level() {
    let listing = read(CASE, "packed-bundles-post-ra.txt").replace("vmatmul", "vother");
    for check in [CheckId::NativeFp8, CheckId::NoF32Matmul] {
        let empty = "module {\n  func.func @main(%arg0: memref<8x128xf32, #tpu.memory_space<vmem>>) {\n    \
                     return\n  }\n}\n";
        let found = finding(&[("mosaic.mlir", empty)], check);
        assert_eq!(found.verdict, Verdict::Fail, "{found:?}");
        assert!(found.says.contains("mosaic.mlir multiplies nothing"), "{found:?}");
        let found = finding(&[("packed.txt", &listing)], check);
        assert_eq!(found.verdict, Verdict::Fail, "{found:?}");
        assert!(found.says.contains("packed.txt multiplies nothing"), "{found:?}");
    }
}

#[test]
fn a_kernel_that_cannot_be_executed_proves_nothing_about_its_copies() {
    let mosaic = read(CASE, "mosaic.mlir");
    let (head, tail) = mosaic.split_once("iteration_bounds = array<i64: ").unwrap();
    let (_, tail) = tail.split_once('>').unwrap();
    let endless = format!("{head}iteration_bounds = array<i64: 1048576, 1048576, 1048576>{tail}");
    let listing = read(CASE, "packed-bundles-post-ra.txt");
    let whole = findings(&[("mosaic.mlir", &mosaic)]);
    let alone = findings(&[("mosaic.mlir", &endless)]);
    let beside = findings(&[("mosaic.mlir", &endless), ("packed.txt", &listing)]);
    for id in [CheckId::AsyncCopies, CheckId::CopiesBalanced, CheckId::DoubleBuffered, CheckId::DataOnChip] {
        let verdict = |all: &[Finding]| all.iter().find(|finding| finding.check == id).unwrap().verdict;
        assert_eq!(verdict(&whole), Verdict::Pass, "{id}");
        assert_eq!(verdict(&alone), Verdict::Obscured, "{id}");
        assert_eq!(verdict(&beside), Verdict::Obscured, "{id}");
    }
}

/// Neither text of another dialect nor a truncated file proves or refutes anything, alone or beside a sound
/// listing.
#[test]
fn text_that_cannot_be_parsed_proves_nothing() {
    let mosaic = read(CASE, "mosaic.mlir");
    let constant = "    %cst = arith.constant";
    let foreign = mosaic.replacen(constant, &format!("    %u = other.operation %arg0 : i32\n{constant}"), 1);
    assert_ne!(foreign, mosaic);
    let listing = read(CASE, "packed-bundles-post-ra.txt");
    for unreadable in [foreign.as_str(), &mosaic[..mosaic.len() / 2]] {
        for files in
            [&[("mosaic.mlir", unreadable)][..], &[("mosaic.mlir", unreadable), ("packed.txt", &listing)]]
        {
            for id in
                [CheckId::NativeFp8, CheckId::NoF32Matmul, CheckId::CopiesBalanced, CheckId::DoubleBuffered]
            {
                let found = finding(files, id);
                assert_eq!(found.verdict, Verdict::Obscured, "{found:?}");
                assert!(found.says.starts_with("mosaic.mlir could not be read: "), "{found:?}");
            }
        }
    }
}

#[test]
fn operands_that_cannot_be_read_are_no_operands_of_another_type() {
    let hlo = read(CASE, "optimized.hlo.txt");
    let (head, tail) = hlo.split_once("\n  ROOT ").unwrap();
    let unread =
        format!("{head}\n  %more = f32[8,8]{{1,0}} dot(), lhs_contracting_dims={{1}}\n  ROOT {tail}");
    for id in [CheckId::NativeFp8, CheckId::NoF32Matmul] {
        let found = finding(&[("hlo.txt", &unread)], id);
        assert_eq!(found.verdict, Verdict::Obscured, "{found:?}");
        assert!(found.says.contains("could not be read"), "{found:?}");
    }
}

#[test]
fn every_kernel_call_of_a_program_counts() {
    let hlo = read(CASE, "optimized.hlo.txt");
    assert!(gathered(&[("hlo.txt", &hlo)]).conflicts.is_empty());
    let (head, tail) = hlo.rsplit_once("\n  ROOT ").unwrap();
    let bodies = ["", ", backend_config={\"custom_call_config\":{\"body\":\"AAAA\"}}"];
    for body in bodies {
        let call =
            format!("%more = f32[4,4]{{1,0}} custom-call(), custom_call_target=\"tpu_custom_call\"{body}");
        let facts = gathered(&[("hlo.txt", &format!("{head}\n  {call}\n  ROOT {tail}"))]);
        assert!(
            facts.conflicts.iter().any(|conflict| conflict.to_string().contains("calls 2 TPU kernels")),
            "{:?}",
            facts.conflicts
        );
    }
    let (before, body) = hlo.split_once("\"body\":\"").unwrap();
    let (_, after) = body.split_once('"').unwrap();
    // Zeros, and the beginning of a kernel.
    for (body, what) in [("AAAA", "neither text nor"), ("bW9kdWxlIHsKICBmdW5jLmZ1bmMgQG1haW4o", "is damaged")]
    {
        let facts = gathered(&[("hlo.txt", &format!("{before}\"body\":\"{body}\"{after}"))]);
        assert!(
            facts.conflicts.iter().any(|conflict| conflict.to_string().contains(what)),
            "{:?}",
            facts.conflicts
        );
    }
}
