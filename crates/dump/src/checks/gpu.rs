//! Claims that mean something of their own on a GPU, where shared memory is what VMEM and SMEM are on a TPU.

mod resources;

use super::{CheckId, CheckOutcome, counted};
use crate::facts::{Copy, Facts, FileKind, Level, Role};

/// Whether the files are of a GPU kernel: by its products, or where it multiplies nothing, by what kind they are.
pub fn is_gpu(facts: &Facts) -> bool {
    let kinds = [FileKind::Ptx, FileKind::Sass, FileKind::Assembler];
    match latest_product(facts) {
        Some(level) => matches!(level, Level::Ptx | Level::Sass),
        None => facts.files.iter().any(|file| kinds.contains(&file.kind)),
    }
}

/// The latest stage that has products: what the assembler made counts, not what it was given.
fn latest_product(facts: &Facts) -> Option<Level> {
    facts.matmuls.iter().map(|matmul| matmul.level).max()
}

/// Why a claim about a GPU kernel matters and what to do when it is false; `None` as for [`run`].
pub fn advice(check: CheckId, facts: &Facts) -> Option<(&'static str, &'static str)> {
    if !is_gpu(facts) {
        return None;
    }
    match check {
        CheckId::OperandsInHbm => Some((
            "the copy engine fetches from device memory while the tensor cores work",
            "fetch the operands in the kernel, stage by stage",
        )),
        CheckId::DataOnChip => {
            Some(("the tensor cores are fed from shared memory", "copy the operands into shared memory"))
        }
        CheckId::AsyncCopies => Some((
            "without copies in the background the tensor cores wait for memory",
            "fetch with cp.async.bulk.tensor, ahead of the product, and wait for its barrier as late as possible",
        )),
        CheckId::CopiesBalanced => Some((
            "a stage that is read before its barrier opens is a race",
            "run the kernel under compute-sanitizer on a GPU",
        )),
        CheckId::ScalesStaged => Some((
            "a scale that is loaded beside the product holds it up for the latency of device memory",
            "copy the scales into shared memory with the stage that they belong to",
        )),
        CheckId::FitsOnChip => Some((
            "blocks that need more registers or shared memory than a multiprocessor has are not launched, or wait",
            "make the tile smaller, or take fewer stages, threads or blocks per multiprocessor",
        )),
        CheckId::NoSpills => Some((
            "a spilled register goes through memory each time that it is used",
            "have a thread hold less at a time, or give it more registers by launching fewer threads",
        )),
        CheckId::NativeFp8 | CheckId::NoF32Matmul | CheckId::DoubleBuffered => None,
    }
}

/// What one level of a GPU kernel says about a claim; `None` where the claim is the same on every machine.
pub fn run(check: CheckId, facts: &Facts, level: Level) -> Option<CheckOutcome> {
    match check {
        CheckId::NativeFp8 | CheckId::NoF32Matmul => None,
        // What the assembler reports and the machine code are of one stage.
        CheckId::NoSpills | CheckId::FitsOnChip if level != Level::Sass => Some(CheckOutcome::unknown("")),
        CheckId::NoSpills => Some(resources::no_spills(facts)),
        CheckId::FitsOnChip => Some(resources::fits_multiprocessor(facts)),
        _ if facts.matmuls.iter().any(|matmul| matmul.level == level) => {
            Some(run_on_product(check, facts, level))
        }
        _ => Some(CheckOutcome::unknown("no multiplication is in these files: give the PTX or SASS of one")),
    }
}

/// What became of a claim about how operands reach the products.
fn run_on_product(check: CheckId, facts: &Facts, level: Level) -> CheckOutcome {
    let fetches = |role: Role| -> Vec<&Copy> {
        let copies = facts.copies.iter().filter(|copy| copy.level == level && copy.inbound);
        copies.filter(|copy| copy.role == Some(role)).collect()
    };
    match check {
        CheckId::OperandsInHbm => data(&fetches(Role::Data), "fetched from device memory by the kernel"),
        CheckId::DataOnChip => data(&fetches(Role::Data), "into shared memory, which feeds the tensor cores"),
        CheckId::AsyncCopies => async_copies(&fetches(Role::Data)),
        CheckId::DoubleBuffered => double_buffered(&fetches(Role::Data)),
        CheckId::ScalesStaged => scales_in_shared_memory(&fetches(Role::Scale)),
        _ => CheckOutcome::unknown(
            "copies and waits match only along an execution: `octile simulate` has one of a GPU kernel, its listing has not",
        ),
    }
}

fn async_copies(fetches: &[&Copy]) -> CheckOutcome {
    match fetches {
        [] => CheckOutcome::fail("no data is copied asynchronously in the code of this kernel", Vec::new()),
        _ => data(fetches, "of data in the code, beside the products"),
    }
}

fn data(fetches: &[&Copy], where_to: &str) -> CheckOutcome {
    let Some(first) = fetches.first() else {
        return CheckOutcome::unknown(
            "the data goes through registers, whose loads do not tell what they load",
        );
    };
    let starts: u64 = fetches.iter().map(|copy| copy.starts).sum();
    let says = format!("{} {where_to}", counted(starts as usize, "copy"));
    CheckOutcome::pass(says, vec![first.evidence.clone()])
}

fn double_buffered(fetches: &[&Copy]) -> CheckOutcome {
    let Some(first) = fetches.first() else {
        return CheckOutcome::unknown(
            "no data is copied in the background, so the code does not show its buffers",
        );
    };
    let evidence = vec![first.evidence.clone()];
    match first.depth {
        None => CheckOutcome::unknown(
            "the kernel makes no barriers, which would tell how many copies are in flight",
        ),
        Some(depth) if depth < 2 => {
            CheckOutcome::fail("the barriers are enough for one place only", evidence)
        }
        Some(depth) => CheckOutcome::pass(format!("barriers for {depth} places that take turns"), evidence),
    }
}

fn scales_in_shared_memory(fetches: &[&Copy]) -> CheckOutcome {
    match fetches.first() {
        Some(first) => {
            let starts: u64 = fetches.iter().map(|copy| copy.starts).sum();
            let says = format!(
                "{} of scales into shared memory, beside the tiles",
                counted(starts as usize, "copy")
            );
            CheckOutcome::pass(says, vec![first.evidence.clone()])
        }
        None => CheckOutcome::fail("no scale is copied to shared memory ahead of the products", Vec::new()),
    }
}
