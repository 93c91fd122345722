//! One row of facts per kernel, as a version table shows it.

use serde::Serialize;

use crate::{
    checks::{CheckId, Finding, Verdict},
    facts::{Copy, Facts, Level, Role, Space},
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
    pub scales_staged: Verdict,
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
        let smem = findings.iter().find(|finding| finding.check == CheckId::ScalesStaged);
        let hbm = copies.iter().filter(|copy| copy.from == Space::Hbm || copy.to == Space::Hbm);
        let data = copies.iter().filter(|copy| copy.inbound && copy.role == Some(Role::Data));
        let cycles = facts.cycles.as_ref();
        Self {
            name: name.to_owned(),
            matmul: matmul.map(|matmul| matmul.lhs.clone()),
            copies: (!copies.is_empty() || cycles.is_some())
                .then(|| copies.iter().map(|copy| copy.starts).sum()),
            // No copies in what was not executed are no news about traffic.
            hbm_bytes: hbm
                .map(|copy| copy.bytes)
                .try_fold(0u64, |sum, bytes| sum.checked_add(bytes?))
                .filter(|bytes| *bytes > 0 || cycles.is_some()),
            buffers: data.filter_map(|copy| copy.depth).min(),
            scales_staged: smem.map_or(Verdict::NotObservable, |finding| finding.verdict),
            cycles: cycles.map(|cycles| cycles.issued),
            stalled: cycles.map(|cycles| cycles.stalled),
            estimated_cycles: facts.estimated_cycles,
            mxu_share: cycles.map(|cycles| cycles.mxu_share()),
            vmem: facts.vmem.as_ref().map(|vmem| vmem.used),
            code_bundles: cycles.map(|cycles| cycles.code_bundles),
            spills: facts.spills.as_ref().map(|spills| spills.instructions),
            registers: facts.assembler.as_ref().map(|assembled| assembled.report.registers),
        }
    }
}
