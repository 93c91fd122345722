//! Operation counts of two listings.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{gpu::Code, llo::Listing};

/// An operation whose count differs between two listings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperationChange {
    /// For example `vst`.
    pub operation: String,
    /// Count in the first listing.
    pub before: usize,
    /// Count in the second one.
    pub after: usize,
}

/// Compares the operation counts of two LLO listings; largest change first.
pub fn operations(before: &Listing<'_>, after: &Listing<'_>) -> Vec<OperationChange> {
    let ops = |listing: &Listing<'_>| {
        listing.all_slots().map(|(_, slot)| listing.op(slot).to_owned()).collect::<Vec<_>>()
    };
    count_changes([ops(before), ops(after)])
}

/// Compares the code of two GPU kernels by operation, with its kind: `UTMALDG.2D`.
pub fn gpu_operations(before: &Code<'_>, after: &Code<'_>) -> Vec<OperationChange> {
    let ops = |code: &Code<'_>| {
        code.instructions().map(|instruction| instruction.opcode.to_string()).collect::<Vec<_>>()
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
