//! Checks: claims about a kernel, each proven or refuted from the facts.

mod arithmetic;
mod copies;
mod gpu;
mod memory;
mod outcome;

use std::fmt;

use octile_core::{Strategy, device::tpu::TpuChip};
use serde::{Serialize, Serializer};

use self::outcome::CheckOutcome;
use crate::facts::{Evidence, Facts, Fault, Level};

/// A claim about a kernel, with a stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckId {
    /// Every matmul has 8-bit float operands.
    NativeFp8,
    /// No matmul has f32 operands.
    NoF32Matmul,
    /// Operands are in HBM when the kernel starts, and the kernel copies them itself.
    OperandsInHbm,
    /// Data is copied asynchronously: by DMA or TMA.
    AsyncCopies,
    /// Every copy has a wait and every wait a copy, and no access races with a copy in flight.
    CopiesBalanced,
    /// The next tile is copied during the matmul of the current one.
    DoubleBuffered,
    /// Scales are staged in SMEM on TPUs, in shared memory on GPUs.
    ScalesStaged,
    /// Data tiles are in VMEM on TPUs, in shared memory on GPUs.
    DataOnChip,
    /// No register is spilled.
    NoSpills,
    /// Buffers and registers fit on the core or SM.
    FitsOnChip,
}

impl CheckId {
    /// Every check, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::NativeFp8,
        Self::NoF32Matmul,
        Self::OperandsInHbm,
        Self::AsyncCopies,
        Self::CopiesBalanced,
        Self::DoubleBuffered,
        Self::ScalesStaged,
        Self::DataOnChip,
        Self::NoSpills,
        Self::FitsOnChip,
    ];

    /// Name in commands, reports and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NativeFp8 => "native-fp8",
            Self::NoF32Matmul => "no-f32-matmul",
            Self::OperandsInHbm => "operands-in-hbm",
            Self::AsyncCopies => "async-copies",
            Self::CopiesBalanced => "copies-balanced",
            Self::DoubleBuffered => "double-buffered",
            Self::ScalesStaged => "scales-staged",
            Self::DataOnChip => "data-on-chip",
            Self::NoSpills => "no-spills",
            Self::FitsOnChip => "fits-on-chip",
        }
    }

    /// Severity of a failure.
    pub const fn severity(self) -> Severity {
        match self {
            Self::NativeFp8 | Self::NoF32Matmul | Self::CopiesBalanced | Self::FitsOnChip => Severity::Error,
            Self::OperandsInHbm | Self::AsyncCopies | Self::DoubleBuffered | Self::DataOnChip => {
                Severity::Error
            }
            Self::ScalesStaged | Self::NoSpills => Severity::Warning,
        }
    }

    /// Why the claim matters.
    pub const fn why(self) -> &'static str {
        match self {
            Self::NativeFp8 => {
                "the matrix units run fp8 matmuls at twice the rate of bf16, but only without conversion"
            }
            Self::NoF32Matmul => "an f32 matmul takes several passes through the matrix units",
            Self::OperandsInHbm => {
                "the compiler may copy whole operands into VMEM before the kernel; its own copies then turn into \
                 loads and stores that overlap with nothing"
            }
            Self::AsyncCopies => "without asynchronous copies the matrix units wait for memory",
            Self::CopiesBalanced => {
                "a DMA without a wait is a data race, and the chip halts if a semaphore is not zero at the end"
            }
            Self::DoubleBuffered => {
                "with a single buffer, the next copy must wait until the current tile is consumed"
            }
            Self::ScalesStaged => "a scale in VMEM must pass through the vector unit to become a scalar",
            Self::DataOnChip => "the matrix units read operands from VMEM only",
            Self::NoSpills => "each spill costs a store slot and a load slot",
            Self::FitsOnChip => "a kernel that exceeds its VMEM limit does not compile or does not load",
        }
    }

    /// How to fix a failure.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NativeFp8 => {
                "use f8e4m3fn operands on a chip with fp8 matrix units (tpu7x), or accept the bf16 rate"
            }
            Self::NoF32Matmul => "quantize the activations, or convert them to bf16, before the matmul",
            Self::OperandsInHbm => {
                "pin the operands with input_memory_space_colors, or raise the VMEM limit of the kernel"
            }
            Self::AsyncCopies => "start copies with tpu.enqueue_dma and wait for them as late as possible",
            Self::CopiesBalanced => {
                "wait once for every DMA, on the same semaphore and for the same number of bytes"
            }
            Self::DoubleBuffered => {
                "give each data operand two buffers and start the next copy before the matmul"
            }
            Self::ScalesStaged => "declare the scale buffers in SMEM and copy the scales there",
            Self::DataOnChip => "declare the data buffers in VMEM",
            Self::NoSpills => "use a smaller tile per matmul, or split the loop",
            Self::FitsOnChip => "use smaller tiles, or request a higher VMEM limit",
        }
    }

    /// The checks that a strategy must pass on a TPU.
    pub fn required(strategy: Strategy) -> &'static [Self] {
        const AUTO: [CheckId; 7] = [
            CheckId::NativeFp8,
            CheckId::NoF32Matmul,
            CheckId::AsyncCopies,
            CheckId::CopiesBalanced,
            CheckId::DoubleBuffered,
            CheckId::DataOnChip,
            CheckId::FitsOnChip,
        ];
        const DMA: [CheckId; 8] = [
            CheckId::NativeFp8,
            CheckId::NoF32Matmul,
            CheckId::OperandsInHbm,
            CheckId::AsyncCopies,
            CheckId::CopiesBalanced,
            CheckId::DoubleBuffered,
            CheckId::DataOnChip,
            CheckId::FitsOnChip,
        ];
        const SMEM: [CheckId; 9] = [
            CheckId::NativeFp8,
            CheckId::NoF32Matmul,
            CheckId::OperandsInHbm,
            CheckId::AsyncCopies,
            CheckId::CopiesBalanced,
            CheckId::DoubleBuffered,
            CheckId::ScalesStaged,
            CheckId::DataOnChip,
            CheckId::FitsOnChip,
        ];
        match strategy {
            Strategy::Auto => &AUTO,
            Strategy::Dma => &DMA,
            Strategy::Smem | Strategy::Strip => &SMEM,
        }
    }

    /// The checks that a strategy must pass on a GPU.
    pub fn required_on_gpu(strategy: Strategy) -> &'static [Self] {
        const ALL: [CheckId; 7] = [
            CheckId::NativeFp8,
            CheckId::NoF32Matmul,
            CheckId::NoSpills,
            CheckId::FitsOnChip,
            CheckId::AsyncCopies,
            CheckId::DoubleBuffered,
            CheckId::ScalesStaged,
        ];
        // Each strategy requires what the previous one does, and more.
        match strategy {
            Strategy::Auto => &ALL[..4],
            Strategy::Dma => &ALL[..6],
            Strategy::Smem | Strategy::Strip => &ALL,
        }
    }

    /// The checks that every TPU kernel must pass, whatever it computes.
    pub const REQUIRED_OF_ANY_TPU_KERNEL: [Self; 2] = [Self::CopiesBalanced, Self::FitsOnChip];

    /// Whether a check says something about a TPU kernel that Octile did not generate: its data need not be
    /// fp8, it need not have scales, and it may have no matmul.
    pub const fn is_meaningful_for_any_tpu_kernel(self, has_matmul: bool) -> bool {
        match self {
            Self::OperandsInHbm | Self::CopiesBalanced | Self::NoSpills | Self::FitsOnChip => true,
            Self::NoF32Matmul | Self::DoubleBuffered => has_matmul,
            Self::NativeFp8 | Self::AsyncCopies | Self::ScalesStaged | Self::DataOnChip => false,
        }
    }

    /// The checks that a GPU kernel without matmuls must pass, such as the quantization kernel.
    pub const REQUIRED_OF_GPU_HELPER: [Self; 2] = [Self::NoSpills, Self::FitsOnChip];

    /// Combines the outcomes of every level.
    fn run(self, facts: &Facts, chip: Option<&TpuChip>) -> CheckOutcome {
        let at = |level: Level| {
            let outcome = self.run_at(level, facts, chip);
            let of_level = |faults: &'_ [Fault]| faults.iter().find(|fault| fault.level == level).cloned();
            if let Some(fault) = of_level(&facts.unreadable).filter(|_| self.is_about_code()) {
                return CheckOutcome::obscured(fault.says);
            }
            match (outcome.verdict, of_level(&facts.invalid), of_level(&facts.unfollowed)) {
                // Invalid code proves nothing.
                (Verdict::Pass, Some(invalid), _) => CheckOutcome::fail(invalid.says, vec![invalid.evidence]),
                // Code that could not be executed proves nothing about its execution.
                (Verdict::Pass | Verdict::NotObservable, _, Some(fault)) if self.is_about_execution() => {
                    CheckOutcome::obscured(fault.says)
                }
                _ => outcome,
            }
        };
        CheckOutcome::over_levels(Level::LATEST_FIRST.map(at))
    }

    /// Whether only an execution proves the claim: the text alone does not show which copies run, and when.
    const fn is_about_execution(self) -> bool {
        match self {
            Self::AsyncCopies | Self::CopiesBalanced | Self::DoubleBuffered => true,
            Self::ScalesStaged | Self::DataOnChip => true,
            Self::NativeFp8 | Self::NoF32Matmul | Self::NoSpills | Self::FitsOnChip => false,
            Self::OperandsInHbm => false,
        }
    }

    /// Whether the claim is about the instructions of the kernel, as opposed to figures that the compiler
    /// reports.
    const fn is_about_code(self) -> bool {
        self.is_about_execution() || matches!(self, Self::NativeFp8 | Self::NoF32Matmul)
    }

    /// Runs the check at one level.
    fn run_at(self, level: Level, facts: &Facts, chip: Option<&TpuChip>) -> CheckOutcome {
        if gpu::is_gpu(facts)
            && let Some(outcome) = gpu::run(self, facts, level)
        {
            return outcome;
        }
        match self {
            Self::NativeFp8 => arithmetic::native_fp8(facts, level),
            Self::NoF32Matmul => arithmetic::no_f32_matmul(facts, level),
            Self::NoSpills => arithmetic::no_spills(facts, level),
            Self::OperandsInHbm => memory::operands_in_hbm(facts, level),
            Self::ScalesStaged => memory::scales_staged(facts, level),
            Self::DataOnChip => memory::data_on_chip(facts, level),
            Self::FitsOnChip => memory::fits_on_chip(facts, level, chip),
            Self::AsyncCopies => copies::async_copies(facts, level),
            Self::CopiesBalanced => copies::copies_balanced(facts, level),
            Self::DoubleBuffered => copies::double_buffered(facts, level),
        }
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for CheckId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Severity of a failed check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A performance problem.
    Warning,
    /// A correctness problem, or not what the strategy requires.
    Error,
}

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Proven.
    Pass,
    /// The files do not show it.
    NotObservable,
    /// A file should show it but could not be analyzed; that outweighs a proof at another level.
    Obscured,
    /// Refuted.
    Fail,
}

/// `1 copy`, `2 copies`.
fn counted(count: usize, what: &str) -> String {
    match what.strip_suffix('y') {
        _ if count == 1 => format!("1 {what}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {what}s"),
    }
}

/// Verdict on one claim, with evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The claim.
    pub check: CheckId,
    /// The verdict.
    pub verdict: Verdict,
    /// Severity of a failure.
    pub severity: Severity,
    /// The reason, as a sentence without a full stop.
    pub says: String,
    /// The lines that prove it.
    pub evidence: Vec<Evidence>,
    /// Why the claim matters.
    pub why: &'static str,
    /// How to fix a failure.
    pub remedy: &'static str,
}

/// Runs every check. The chip, if known, supplies limits that the files do not state.
pub fn check(facts: &Facts, chip: Option<&TpuChip>) -> Vec<Finding> {
    let is_damaged = facts.files.iter().any(|file| !file.damage.is_empty());
    let finding = |check: CheckId| {
        let mut outcome = check.run(facts, chip);
        // Absence in a damaged file proves nothing: it may have been cut off.
        if is_damaged && outcome.is_conclusive() && outcome.evidence.is_empty() {
            outcome = CheckOutcome::unknown(format!("{}, but a file is damaged", outcome.says));
        }
        // With several kernels, a proof may be about another one; a failure stands.
        if let (Verdict::Pass, Some(conflict)) = (outcome.verdict, facts.conflicts.first()) {
            outcome = CheckOutcome::unknown(format!("{}, but {conflict}", outcome.says));
        }
        let (why, remedy) = gpu::advice(check, facts).unwrap_or((check.why(), check.remedy()));
        Finding {
            check,
            verdict: outcome.verdict,
            severity: check.severity(),
            says: outcome.says,
            evidence: outcome.evidence,
            why,
            remedy,
        }
    };
    CheckId::ALL.into_iter().map(finding).collect()
}

/// The worst verdict of the required checks; not a pass if there are none.
pub fn overall(findings: &[Finding], required: &[CheckId]) -> Verdict {
    let verdict = |id: &CheckId| {
        let finding = findings.iter().find(|finding| finding.check == *id);
        finding.map_or(Verdict::NotObservable, |finding| finding.verdict)
    };
    required.iter().map(verdict).max().unwrap_or(Verdict::NotObservable)
}
