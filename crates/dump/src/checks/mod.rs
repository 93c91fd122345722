//! Checks: each claims something about a kernel and proves or refutes it from the facts.

mod arithmetic;
mod copies;
mod gpu;
mod memory;
mod outcome;

use std::fmt;

use octile_core::{Strategy, device::tpu::TpuChip};
use serde::{Serialize, Serializer};

use self::outcome::Outcome;
use crate::facts::{Evidence, Facts, Fault, Level};

/// A claim, with a name that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckId {
    /// Every multiplication takes its operands as 8-bit floats.
    NativeFp8,
    /// No multiplication takes f32 operands.
    NoF32Matmul,
    /// The kernel finds its data in device memory and copies it itself.
    OperandsInHbm,
    /// Data is copied while other work goes on.
    AsyncCopies,
    /// Every copy is awaited, and every wait has a copy.
    CopiesBalanced,
    /// The next block is copied while the current one is multiplied.
    DoubleBuffered,
    /// Scales are read from scalar memory.
    ScalesStaged,
    /// Data blocks are in vector memory.
    DataOnChip,
    /// No vector register is spilled.
    NoSpills,
    /// The buffers fit.
    FitsOnChip,
}

impl CheckId {
    /// Every check, in the order in which reports list them.
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

    /// The name that commands, reports and records use.
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

    /// How bad it is when the claim is false.
    pub const fn severity(self) -> Severity {
        match self {
            Self::NativeFp8 | Self::NoF32Matmul | Self::CopiesBalanced | Self::FitsOnChip => Severity::Error,
            Self::OperandsInHbm | Self::AsyncCopies | Self::DoubleBuffered | Self::DataOnChip => {
                Severity::Error
            }
            Self::ScalesStaged | Self::NoSpills => Severity::Warning,
        }
    }

    /// Why it matters.
    pub const fn why(self) -> &'static str {
        match self {
            Self::NativeFp8 => {
                "the matrix units multiply 8-bit floats at twice the rate of bf16, but only as they are"
            }
            Self::NoF32Matmul => "an f32 product takes several passes through the matrix units",
            Self::OperandsInHbm => {
                "the compiler may copy whole operands into VMEM before the kernel; its own copies then turn into \
                 loads and stores that overlap with nothing"
            }
            Self::AsyncCopies => "without copies in the background the matrix units wait for memory",
            Self::CopiesBalanced => {
                "a copy that is not awaited is a race, and the chip halts on a semaphore that is not zero"
            }
            Self::DoubleBuffered => {
                "with one buffer the copy of the next block cannot start before the current one is used up"
            }
            Self::ScalesStaged => "a scale in VMEM goes through the vector unit to become a scalar",
            Self::DataOnChip => "the matrix units are fed from vector memory only",
            Self::NoSpills => "a spilled register costs a store and a load slot each time",
            Self::FitsOnChip => {
                "a kernel that needs more vector memory than it may use does not compile or does not load"
            }
        }
    }

    /// What to do when the claim is false.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NativeFp8 => {
                "multiply f8e4m3fn by f8e4m3fn on a chip that takes it (tpu7x), or accept the rate of bf16"
            }
            Self::NoF32Matmul => "quantize the activations, or convert them to bf16, before the product",
            Self::OperandsInHbm => {
                "pin the operands with input_memory_space_colors, or raise the VMEM limit of the kernel"
            }
            Self::AsyncCopies => "start copies with tpu.enqueue_dma and wait for them as late as possible",
            Self::CopiesBalanced => {
                "wait once for every copy that is started, on the same semaphore and for the same bytes"
            }
            Self::DoubleBuffered => {
                "give each data operand two buffers and start the next copy before the product"
            }
            Self::ScalesStaged => "declare the scale buffers in SMEM and copy the scales there",
            Self::DataOnChip => "declare the data buffers in VMEM",
            Self::NoSpills => "make the block of one product smaller, or split its loop",
            Self::FitsOnChip => "make the blocks smaller, or ask for a higher VMEM limit",
        }
    }

    /// The checks that a strategy must pass: the success criteria of its version, as they really are.
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
        // Each strategy promises what the one before it does, and more.
        match strategy {
            Strategy::Auto => &ALL[..4],
            Strategy::Dma => &ALL[..6],
            Strategy::Smem | Strategy::Strip => &ALL,
        }
    }

    /// The checks that a GPU kernel must pass which multiplies nothing, but prepares the operands of one that does.
    pub const REQUIRED_OF_GPU_HELPER: [Self; 2] = [Self::NoSpills, Self::FitsOnChip];

    /// What every level of the compiler says about the claim, as one outcome.
    fn run(self, facts: &Facts, chip: Option<&TpuChip>) -> Outcome {
        let at = |level: Level| {
            let outcome = self.run_at(level, facts, chip);
            let of_level = |faults: &'_ [Fault]| faults.iter().find(|fault| fault.level == level).cloned();
            if let Some(fault) = of_level(&facts.unreadable).filter(|_| self.is_about_code()) {
                return Outcome::obscured(fault.says);
            }
            match (outcome.verdict, of_level(&facts.invalid), of_level(&facts.unfollowed)) {
                // What a level shows that cannot run as it is proves nothing.
                (Verdict::Pass, Some(invalid), _) => Outcome::fail(invalid.says, vec![invalid.evidence]),
                // Nor does code that could not be executed, where the claim is about its execution.
                (Verdict::Pass | Verdict::NotObservable, _, Some(fault)) if self.is_about_execution() => {
                    Outcome::obscured(fault.says)
                }
                _ => outcome,
            }
        };
        Outcome::over_levels(Level::LATEST_FIRST.map(at))
    }

    /// Whether only an execution proves the claim: the text alone does not tell which copies are made, and when.
    const fn is_about_execution(self) -> bool {
        match self {
            Self::AsyncCopies | Self::CopiesBalanced | Self::DoubleBuffered => true,
            Self::ScalesStaged | Self::DataOnChip => true,
            Self::NativeFp8 | Self::NoF32Matmul | Self::NoSpills | Self::FitsOnChip => false,
            Self::OperandsInHbm => false,
        }
    }

    /// Whether the instructions of a kernel decide the claim, as opposed to what the compiler reports beside them.
    const fn is_about_code(self) -> bool {
        self.is_about_execution() || matches!(self, Self::NativeFp8 | Self::NoF32Matmul)
    }

    /// What one level says.
    fn run_at(self, level: Level, facts: &Facts, chip: Option<&TpuChip>) -> Outcome {
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

/// How bad a false claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Slower than it could be.
    Warning,
    /// Wrong, or not what the strategy promises.
    Error,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Proven.
    Pass,
    /// The files do not tell.
    NotObservable,
    /// The files should tell, but what is in them could not be followed: that is no proof, whatever others promise.
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

/// What became of one claim, with the lines that prove it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The claim.
    pub check: CheckId,
    /// What became of it.
    pub verdict: Verdict,
    /// How bad it is when false.
    pub severity: Severity,
    /// What was found, as a sentence without a full stop.
    pub says: String,
    /// The lines that prove it.
    pub evidence: Vec<Evidence>,
    /// Why it matters.
    pub why: &'static str,
    /// What to do when false.
    pub remedy: &'static str,
}

/// Runs every check. The chip, where known, supplies limits that the files leave out.
pub fn check(facts: &Facts, chip: Option<&TpuChip>) -> Vec<Finding> {
    let is_damaged = facts.files.iter().any(|file| !file.damage.is_empty());
    let finding = |check: CheckId| {
        let mut outcome = check.run(facts, chip);
        // What is not there may have been in what was cut off: its absence neither proves nor refutes.
        if is_damaged && outcome.is_conclusive() && outcome.evidence.is_empty() {
            outcome = Outcome::unknown(format!("{}, but a file is damaged", outcome.says));
        }
        // Of several kernels it is not known which one the proof is about; what refutes one of them still does.
        if let (Verdict::Pass, Some(conflict)) = (outcome.verdict, facts.conflicts.first()) {
            outcome = Outcome::unknown(format!("{}, but {conflict}", outcome.says));
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

/// The verdict over the required checks: the worst of them, and never a pass without any.
pub fn overall(findings: &[Finding], required: &[CheckId]) -> Verdict {
    let verdict = |id: &CheckId| {
        let finding = findings.iter().find(|finding| finding.check == *id);
        finding.map_or(Verdict::NotObservable, |finding| finding.verdict)
    };
    required.iter().map(verdict).max().unwrap_or(Verdict::NotObservable)
}
