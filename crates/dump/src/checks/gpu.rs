//! Checks on GPU kernels, where shared memory takes the place of VMEM and SMEM.

mod resources;

use super::{CheckId, CheckOutcome, counted};
use crate::facts::{Copy, Facts, FileKind, Level, Role};

/// Whether the files are of a GPU kernel: by its matmuls, or without any, by the kinds of the files.
pub(super) fn is_gpu(facts: &Facts) -> bool {
    let kinds = [FileKind::Ptx, FileKind::Sass, FileKind::Assembler];
    match latest_product(facts) {
        Some(level) => matches!(level, Level::Ptx | Level::Sass),
        None => facts.files.iter().any(|file| kinds.contains(&file.kind)),
    }
}

/// The latest stage with matmuls: SASS counts before PTX.
fn latest_product(facts: &Facts) -> Option<Level> {
    facts.matmuls.iter().map(|matmul| matmul.level).max()
}

/// Why a claim matters on GPUs and how to fix a failure; `None` as for [`run`].
pub(super) fn advice(check: CheckId, facts: &Facts) -> Option<(&'static str, &'static str)> {
    if !is_gpu(facts) {
        return None;
    }
    match check {
        CheckId::OperandsInHbm => Some((
            "TMA loads from HBM while the tensor cores work",
            "load the operands in the kernel, stage by stage",
        )),
        CheckId::DataOnChip => {
            Some(("wgmma reads its operands from shared memory", "copy the operands into shared memory"))
        }
        CheckId::AsyncCopies => Some((
            "without asynchronous copies the tensor cores wait for memory",
            "load with TMA (cp.async.bulk.tensor) ahead of the wgmma, and wait on the full barrier as late as possible",
        )),
        CheckId::CopiesBalanced => Some((
            "reading a stage before its full barrier completes is a data race",
            "run the kernel under compute-sanitizer on a GPU",
        )),
        CheckId::ScalesStaged => Some((
            "a scale that is loaded next to the wgmma stalls it for the latency of HBM",
            "copy the scales into shared memory with their pipeline stage",
        )),
        CheckId::FitsOnChip => Some((
            "CTAs that need more registers or shared memory than an SM has are not launched, or wait",
            "use a smaller tile, or fewer stages, threads or CTAs per SM",
        )),
        CheckId::NoSpills => Some((
            "every use of a spilled register goes through memory",
            "keep fewer values live per thread, or launch fewer threads with more registers each",
        )),
        CheckId::NativeFp8 | CheckId::NoF32Matmul | CheckId::DoubleBuffered => None,
    }
}

/// Runs a check at one level of a GPU kernel; `None` if the check is the same on all targets.
pub(super) fn run(check: CheckId, facts: &Facts, level: Level) -> Option<CheckOutcome> {
    match check {
        CheckId::NativeFp8 | CheckId::NoF32Matmul => None,
        // The ptxas report belongs to the SASS level.
        CheckId::NoSpills | CheckId::FitsOnChip if level != Level::Sass => Some(CheckOutcome::unknown("")),
        CheckId::NoSpills => Some(resources::no_spills(facts)),
        CheckId::FitsOnChip => Some(resources::fits_on_sm(facts)),
        _ if facts.matmuls.iter().any(|matmul| matmul.level == level) => {
            Some(run_on_product(check, facts, level))
        }
        _ => Some(CheckOutcome::unknown("no matmul is in these files: give the PTX or SASS of the kernel")),
    }
}

/// Runs a check on how operands reach the tensor cores.
fn run_on_product(check: CheckId, facts: &Facts, level: Level) -> CheckOutcome {
    let fetches = |role: Role| -> Vec<&Copy> {
        let copies = facts.copies.iter().filter(|copy| copy.level == level && copy.inbound);
        copies.filter(|copy| copy.role == Some(role)).collect()
    };
    match check {
        CheckId::OperandsInHbm => data(&fetches(Role::Data), "from HBM by the kernel"),
        CheckId::DataOnChip => data(&fetches(Role::Data), "into shared memory"),
        CheckId::AsyncCopies => async_copies(&fetches(Role::Data)),
        CheckId::DoubleBuffered => double_buffered(&fetches(Role::Data)),
        CheckId::ScalesStaged => scales_in_shared_memory(&fetches(Role::Scale)),
        _ => CheckOutcome::unknown(
            "only an execution shows whether copies and waits match: run `octile simulate`",
        ),
    }
}

fn async_copies(fetches: &[&Copy]) -> CheckOutcome {
    match fetches {
        [] => CheckOutcome::fail("no data is copied asynchronously in the code of this kernel", Vec::new()),
        _ => data(fetches, "of data in the code, alongside the matmuls"),
    }
}

fn data(fetches: &[&Copy], where_to: &str) -> CheckOutcome {
    let Some(first) = fetches.first() else {
        return CheckOutcome::unknown(
            "the data goes through registers, whose loads do not show what they load",
        );
    };
    let starts: u64 = fetches.iter().map(|copy| copy.starts).sum();
    let says = format!("{} {where_to}", counted(starts as usize, "copy"));
    CheckOutcome::pass(says, vec![first.evidence.clone()])
}

fn double_buffered(fetches: &[&Copy]) -> CheckOutcome {
    let Some(first) = fetches.first() else {
        return CheckOutcome::unknown(
            "no data is copied asynchronously, so the code does not show its buffers",
        );
    };
    let evidence = vec![first.evidence.clone()];
    match first.depth {
        None => CheckOutcome::unknown(
            "the kernel initializes no barriers, which would show the number of pipeline stages",
        ),
        Some(depth) if depth < 2 => {
            CheckOutcome::fail("the barriers allow only one pipeline stage", evidence)
        }
        Some(depth) => CheckOutcome::pass(format!("barriers for {depth} pipeline stages"), evidence),
    }
}

fn scales_in_shared_memory(fetches: &[&Copy]) -> CheckOutcome {
    match fetches.first() {
        Some(first) => {
            let starts: u64 = fetches.iter().map(|copy| copy.starts).sum();
            let says = format!(
                "{} of scales into shared memory, alongside the tiles",
                counted(starts as usize, "copy")
            );
            CheckOutcome::pass(says, vec![first.evidence.clone()])
        }
        None => CheckOutcome::fail("no scale is copied to shared memory ahead of the matmuls", Vec::new()),
    }
}
