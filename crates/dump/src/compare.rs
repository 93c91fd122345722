//! Kernels side by side: one row of facts each, and what changed from one to the next.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    checks::{CheckId, Finding, Verdict},
    facts::{Copy, Facts, Level, Space},
    gpu::Code,
    llo::Listing,
};

/// What a version table shows of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What to call it.
    pub name: String,
    /// Operand types of its multiplications, for example `f8e4m3fn`.
    pub matmul: Option<String>,
    /// Copies it executes, or has in its text.
    pub copies: Option<u64>,
    /// Bytes to and from device memory.
    pub hbm_bytes: Option<u64>,
    /// The fewest places that take turns for a data operand.
    pub buffers: Option<usize>,
    /// Whether scales are in scalar memory.
    pub scales_in_smem: Verdict,
    /// Cycles with waits free.
    pub cycles: Option<u64>,
    /// Cycles in waits, where they were modelled.
    pub stalled: Option<f64>,
    /// The compiler's own estimate.
    pub estimated_cycles: Option<u64>,
    /// Part of the time that the matrix units multiply.
    pub mxu_share: Option<f64>,
    /// Bytes of vector memory.
    pub vmem: Option<u64>,
    /// Bundles of code.
    pub code_bundles: Option<usize>,
    /// Vector spills in the code.
    pub spills: Option<usize>,
    /// Registers of a GPU thread.
    pub registers: Option<u64>,
}

impl Row {
    /// The row of one kernel.
    pub fn of(name: &str, facts: &Facts, findings: &[Finding]) -> Self {
        let copies: Vec<Copy> =
            facts.copies.iter().filter(|copy| copy.level != Level::Hlo).cloned().collect();
        let copies = Facts::latest(&copies, |copy| copy.level);
        let matmul = Facts::latest(&facts.matmuls, |matmul| matmul.level).first().copied();
        let smem = findings.iter().find(|finding| finding.check == CheckId::ScalesInSmem);
        let hbm = copies.iter().filter(|copy| copy.from == Space::Hbm || copy.to == Space::Hbm);
        let data = copies.iter().filter(|copy| copy.inbound && copy.role == Some(crate::facts::Role::Data));
        let cycles = facts.cycles.as_ref();
        Self {
            name: name.to_owned(),
            matmul: matmul.map(|matmul| matmul.lhs.clone()),
            copies: (!copies.is_empty() || cycles.is_some())
                .then(|| copies.iter().map(|copy| copy.starts).sum()),
            hbm_bytes: hbm.map(|copy| copy.bytes).try_fold(0u64, |sum, bytes| sum.checked_add(bytes?)),
            buffers: data.filter_map(|copy| copy.depth).min(),
            scales_in_smem: smem.map_or(Verdict::NotObservable, |finding| finding.verdict),
            cycles: cycles.map(|cycles| cycles.issued),
            stalled: cycles.map(|cycles| cycles.stalled),
            estimated_cycles: facts.estimated_cycles,
            mxu_share: cycles.map(|cycles| cycles.mxu_share()),
            vmem: facts.vmem.as_ref().map(|vmem| vmem.used),
            code_bundles: cycles.map(|cycles| cycles.code_bundles),
            spills: facts.spills.as_ref().map(|spills| spills.instructions),
            registers: facts.assembler.map(|report| report.registers),
        }
    }
}

/// A check whose verdict is another one in the second of two dumps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The claim.
    pub check: CheckId,
    /// Its verdict before.
    pub before: Verdict,
    /// Its verdict after.
    pub after: Verdict,
    /// What was found after.
    pub says: String,
}

/// The checks whose verdicts differ.
pub fn changes(before: &[Finding], after: &[Finding]) -> Vec<Change> {
    let pairs = before.iter().filter_map(|old| Some((old, after.iter().find(|new| new.check == old.check)?)));
    let changed = pairs.filter(|(old, new)| old.verdict != new.verdict);
    changed
        .map(|(old, new)| Change {
            check: old.check,
            before: old.verdict,
            after: new.verdict,
            says: new.says.clone(),
        })
        .collect()
}

/// How often each operation is in the code of two listings, where the counts differ; largest change first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperationChange {
    /// For example `vst`.
    pub operation: String,
    /// In the first listing.
    pub before: usize,
    /// In the second one.
    pub after: usize,
}

/// Compares the code of two listings by operation.
pub fn operations(before: &Listing<'_>, after: &Listing<'_>) -> Vec<OperationChange> {
    let ops = |listing: &Listing<'_>| {
        listing.all_slots().map(|(_, slot)| listing.op(slot).to_owned()).collect::<Vec<_>>()
    };
    count_changes([ops(before), ops(after)])
}

/// Compares the code of two GPU kernels by operation, with its kind: `UTMALDG.2D`.
pub fn gpu_operations(before: &Code<'_>, after: &Code<'_>) -> Vec<OperationChange> {
    let ops = |code: &Code<'_>| {
        code.instructions().map(|instruction| code.str(instruction.op).to_owned()).collect::<Vec<_>>()
    };
    count_changes([ops(before), ops(after)])
}

fn count_changes(sides: [Vec<String>; 2]) -> Vec<OperationChange> {
    let mut counts = BTreeMap::<String, [usize; 2]>::new();
    for (side, operations) in sides.into_iter().enumerate() {
        for operation in operations {
            if let Some(count) = counts.entry(operation).or_default().get_mut(side) {
                *count += 1;
            }
        }
    }
    let differ = counts.into_iter().filter(|(_, [before, after])| before != after);
    let mut changes: Vec<_> =
        differ.map(|(operation, [before, after])| OperationChange { operation, before, after }).collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.before.abs_diff(change.after)));
    changes
}
