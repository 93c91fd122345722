//! One row of facts per kernel, as a version table shows it.

use serde::Serialize;

use crate::{
    checks::{CheckId, Finding, Verdict},
    facts::{Copy, Facts, Level, Role, Space},
};

/// The row of one kernel in a version table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Matmul operand types, for example `f8e4m3fn`.
    pub matmul: Option<String>,
    /// Copies executed, or in the text.
    pub copies: Option<u64>,
    /// HBM traffic in bytes.
    pub hbm_bytes: Option<u64>,
    /// The fewest buffer slots of a data operand.
    pub buffers: Option<usize>,
    /// Whether scales are staged in SMEM or shared memory.
    pub scales_staged: Verdict,
    /// Cycles with free waits.
    pub cycles: Option<u64>,
    /// Stall cycles, if modelled.
    pub stalled: Option<f64>,
    /// The compiler's estimate.
    pub estimated_cycles: Option<u64>,
    /// Utilization of the matrix units.
    pub mxu_share: Option<f64>,
    /// VMEM use in bytes.
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
            // Without an execution, the absence of copies says nothing about traffic.
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
