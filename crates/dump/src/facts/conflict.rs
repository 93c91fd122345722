//! Decides whether files can be of one kernel.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::{DumpTarget, Facts, FileKind, Level};
use crate::mosaic::OperandShape;

/// Why files cannot all be of one kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// Dumps for two kinds of device.
    #[error("{tpu} is a dump of a TPU kernel and {gpu} of a GPU kernel")]
    MixedTargets {
        /// A TPU dump.
        tpu: String,
        /// A GPU dump.
        gpu: String,
    },
    /// Two different files of one compiler stage.
    #[error("{first} and {second} each define a kernel")]
    SameStage {
        /// One file.
        first: String,
        /// The other.
        second: String,
    },
    /// One file of GPU code with several entry points.
    #[error("{file} defines {count} kernels: put each into its own file")]
    SeveralKernels {
        /// The file.
        file: String,
        /// Number of entry points.
        count: usize,
    },
    /// Two stages of GPU code that name other functions.
    #[error("{} and {} both multiply, one as {} and the other as {}", files[0], files[1], functions[0], functions[1])]
    OtherFunction {
        /// The files.
        files: [String; 2],
        /// The first function of each.
        functions: [String; 2],
    },
    /// Two listings whose matmuls, DMAs or waits differ.
    #[error("{} and {} both multiply, and their instructions are not the same", files[0], files[1])]
    OtherInstructions {
        /// The files.
        files: [String; 2],
    },
    /// Two stages that declare an operand with other shapes or types.
    #[error("operand {index} is {} in {} and {} in {}", shapes[0], files[0], shapes[1], files[1])]
    OtherOperand {
        /// The position of the operand.
        index: usize,
        /// The files.
        files: [String; 2],
        /// Its type and shape in each of them.
        shapes: [String; 2],
    },
    /// A program that does not call exactly one readable kernel.
    #[error("{0}")]
    Calls(String),
}

impl Conflict {
    /// Whether the files do not belong into one folder, so that nothing should be concluded from them
    /// together.
    pub fn is_mixed_folder(&self) -> bool {
        matches!(self, Self::MixedTargets { .. } | Self::SameStage { .. } | Self::OtherOperand { .. })
    }
}

impl Serialize for Conflict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What tells the code of one kernel from that of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    file: String,
    kind: FileKind,
    /// Count of each operation, for listings.
    operations: BTreeMap<String, usize>,
    /// Names of the functions, for GPU code.
    functions: Vec<String>,
}

impl Fingerprint {
    /// Of a TPU listing, by the operations that every pass keeps.
    pub(super) fn of_listing<'t>(
        file: &str,
        kind: FileKind,
        operations: impl Iterator<Item = &'t str>,
    ) -> Self {
        const KEPT: [&str; 4] = ["vmatmul", "dma.", "vsync", "inlined_call_operand"];
        let mut counts = BTreeMap::new();
        for operation in operations.filter(|operation| KEPT.iter().any(|kept| operation.starts_with(kept))) {
            *counts.entry(operation.to_owned()).or_default() += 1;
        }
        Self { file: file.to_owned(), kind, operations: counts, functions: Vec::new() }
    }

    /// Of GPU code, by its functions.
    pub(super) fn of_code(file: &str, kind: FileKind, functions: Vec<String>) -> Self {
        Self { file: file.to_owned(), kind, operations: BTreeMap::new(), functions }
    }

    /// Whether this is another stage of the same kernel.
    pub(super) fn is_stage_of(&self, other: &Self) -> bool {
        self.kind != other.kind && self.operations == other.operations && self.functions == other.functions
    }
}

/// The operands that a Mosaic kernel declares.
#[derive(Clone, Debug)]
pub(super) struct Declaration {
    pub file: String,
    /// Inputs, then outputs, in order.
    pub operands: Vec<OperandShape>,
}

/// Number of kernels that a file of GPU code defines; 1 for any other.
pub(super) fn kernels_defined(kind: FileKind, text: &str) -> usize {
    match kind {
        FileKind::Ptx => {
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            code.map(|line| line.matches(".entry").count()).sum()
        }
        FileKind::Sass => text.matches("STO_CUDA_ENTRY").count(),
        _ => 1,
    }
}

/// Why the files cannot all be of one kernel.
pub(super) fn conflicts(facts: &Facts) -> Vec<Conflict> {
    let mut conflicts: Vec<_> = mixed_targets(facts).into_iter().collect();
    conflicts.extend(same_stage(facts));
    conflicts.extend(facts.files.iter().filter(|file| file.kernels > 1).map(|file| {
        let (file, count) = (file.name.clone(), file.kernels);
        Conflict::SeveralKernels { file, count }
    }));
    conflicts.extend(facts.call_conflicts.iter().cloned().map(Conflict::Calls));
    conflicts.extend(other_code(facts));
    // The operation of a foreign kernel also has operands that are not the kernel's, such as grid bounds.
    if facts.operation.is_none() {
        conflicts.extend(other_operand(facts));
    }
    conflicts
}

fn mixed_targets(facts: &Facts) -> Option<Conflict> {
    let first = |target: DumpTarget| {
        let file = facts.files.iter().find(|file| file.kind.target() == Some(target))?;
        Some(file.name.clone())
    };
    let (tpu, gpu) = first(DumpTarget::Tpu).zip(first(DumpTarget::Gpu))?;
    Some(Conflict::MixedTargets { tpu, gpu })
}

/// Two files that define a kernel at the same stage, unless one is a copy of the other.
fn same_stage(facts: &Facts) -> Option<Conflict> {
    let defining = || facts.files.iter().filter(|file| file.definition.is_some());
    defining().enumerate().find_map(|(at, file)| {
        let mut before = defining().take(at);
        let other = before.find(|other| other.kind == file.kind && other.definition != file.definition)?;
        Some(Conflict::SameStage { first: other.name.clone(), second: file.name.clone() })
    })
}

/// Code of two stages that is not of one kernel.
fn other_code(facts: &Facts) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for (at, one) in facts.code.iter().enumerate() {
        let others = facts.code.iter().skip(at + 1).filter(|other| other.kind.target() == one.kind.target());
        for other in others.filter(|other| other.kind != one.kind && !other.is_stage_of(one)) {
            let files = [one.file.clone(), other.file.clone()];
            conflicts.push(match (&one.functions[..], &other.functions[..]) {
                ([first, ..], [second, ..]) if first != second => {
                    Conflict::OtherFunction { files, functions: [first.clone(), second.clone()] }
                }
                _ => Conflict::OtherInstructions { files },
            });
        }
    }
    conflicts
}

/// The first operand that two stages of a TPU kernel declare differently.
fn other_operand(facts: &Facts) -> Option<Conflict> {
    // A listing that does not multiply is of something else, and so are its operands.
    let is_kernel = |file: &str| facts.code.iter().any(|code| code.file == file);
    let listed = |level: Level| {
        let operands = facts.operands.iter().filter(move |operand| operand.level == level);
        operands.filter(move |operand| level != Level::Llo || is_kernel(&operand.evidence.file))
    };
    let outputs = listed(Level::Llo).filter(|operand| operand.output).count();
    for operand in listed(Level::Llo).chain(listed(Level::Hlo)) {
        let (index, here) = (operand.index, &operand.evidence.file);
        let this = || format!("{}{:?}", operand.element, operand.dims);
        for Declaration { file, operands } in &facts.declarations {
            // With several outputs, their numbers do not tell which is which.
            let comparable = !operand.output || (outputs == 1 && index + 1 == operands.len());
            let declared = operands.get(index).filter(|_| comparable);
            let Some(declared) = declared.filter(|declared| !declared.admits(operand)) else { continue };
            let shapes = [declared.to_string(), this()];
            return Some(Conflict::OtherOperand { index, files: [file.clone(), here.clone()], shapes });
        }
        let same = |other: &&super::Operand| other.index == index && other.output == operand.output;
        let program = listed(Level::Hlo).find(same).filter(|_| operand.level == Level::Llo);
        if let Some(other) = program.filter(|other| {
            (&other.element, squeezed(&other.dims)) != (&operand.element, squeezed(&operand.dims))
        }) {
            let shapes = [format!("{}{:?}", other.element, other.dims), this()];
            let files = [other.evidence.file.clone(), here.clone()];
            return Some(Conflict::OtherOperand { index, files, shapes });
        }
    }
    None
}

/// Dimensions without those of extent 1, which stages add and drop.
pub(crate) fn squeezed(dims: &[u64]) -> Vec<u64> {
    dims.iter().copied().filter(|&extent| extent != 1).collect()
}
