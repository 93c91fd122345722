//! Whether the files can be of one kernel.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{DumpTarget, Facts, FileKind};

/// What tells one kernel's code from another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    file: String,
    kind: FileKind,
    /// How often each operation occurs, for listings.
    operations: BTreeMap<String, usize>,
    /// Names of the functions, for GPU code.
    functions: Vec<String>,
}

impl Fingerprint {
    /// Of a TPU listing, by its operations. The final pass keeps all of those that count.
    pub fn of_listing<'t>(file: &str, kind: FileKind, operations: impl Iterator<Item = &'t str>) -> Self {
        const KEPT: [&str; 4] = ["vmatmul", "dma.", "vsync", "inlined_call_operand"];
        let mut counts = BTreeMap::new();
        for operation in operations.filter(|operation| KEPT.iter().any(|kept| operation.starts_with(kept))) {
            *counts.entry(operation.to_owned()).or_default() += 1;
        }
        Self { file: file.to_owned(), kind, operations: counts, functions: Vec::new() }
    }

    /// Of GPU code, by its functions.
    pub fn of_code(file: &str, kind: FileKind, functions: Vec<String>) -> Self {
        Self { file: file.to_owned(), kind, operations: BTreeMap::new(), functions }
    }

    /// Whether this is another stage of the same kernel.
    pub fn is_stage_of(&self, other: &Self) -> bool {
        self.kind != other.kind && self.operations == other.operations && self.functions == other.functions
    }
}

/// Why the files cannot all be of one kernel.
pub fn conflicts(facts: &Facts) -> Vec<String> {
    let mut conflicts = facts.call_conflicts.clone();
    let (tpu, gpu) = (first_of(facts, DumpTarget::Tpu), first_of(facts, DumpTarget::Gpu));
    if let (Some(tpu), Some(gpu)) = (tpu, gpu) {
        conflicts.push(format!("{tpu} is of a TPU kernel and {gpu} of a GPU kernel"));
    }
    for (at, one) in facts.code.iter().enumerate() {
        let others = facts.code.iter().skip(at + 1).filter(|other| other.kind.target() == one.kind.target());
        for other in others.filter(|other| !other.is_stage_of(one)) {
            let mut says = format!("{} and {} both multiply", one.file, other.file);
            if let ([first, ..], [second, ..]) = (&one.functions[..], &other.functions[..])
                && first != second
            {
                let _ = write!(says, ", one as {first} and the other as {second}");
            } else if one.kind != other.kind {
                says.push_str(", and their instructions are not the same");
            }
            conflicts.push(says);
        }
    }
    conflicts
}

fn first_of(facts: &Facts, target: DumpTarget) -> Option<&str> {
    facts.files.iter().find(|file| file.kind.target() == Some(target)).map(|file| file.name.as_str())
}
