//! Which names of a function are registers.

use std::collections::{HashMap, HashSet};

use super::Function;

/// Special registers, without `%` and without the dimension.
const SPECIAL: [&str; 27] = [
    "tid",
    "ntid",
    "laneid",
    "warpid",
    "nwarpid",
    "ctaid",
    "nctaid",
    "smid",
    "nsmid",
    "gridid",
    "clusterid",
    "nclusterid",
    "cluster_ctaid",
    "cluster_nctaid",
    "cluster_ctarank",
    "cluster_nctarank",
    "is_explicit_cluster",
    "clock",
    "clock64",
    "clock_hi",
    "globaltimer",
    "globaltimer_lo",
    "globaltimer_hi",
    "total_smem_size",
    "dynamic_smem_size",
    "aggr_smem_size",
    "current_graph_exec",
];

/// Prefixes of further special registers.
const SPECIAL_PREFIXES: [&str; 4] = ["lanemask_", "pm", "envreg", "reserved_smem_"];

/// The registers that a function declares.
#[derive(Debug)]
pub struct RegisterSet<'f> {
    declared: HashSet<&'f str>,
    /// `%r` and `9` of `.reg .b32 %r<9>`.
    numbered: HashMap<&'f str, Option<u64>>,
    parameters: HashSet<&'f str>,
}

impl<'f> RegisterSet<'f> {
    /// The registers of a function.
    pub fn new(function: &'f Function<'_>) -> Self {
        let (mut declared, mut numbered) = (HashSet::new(), HashMap::new());
        for registers in &function.registers {
            match &registers.count {
                Some(count) => drop(numbered.insert(&*registers.name, count.parse().ok())),
                None => drop(declared.insert(&*registers.name)),
            }
        }
        let parameters = function.parameters.iter().map(|parameter| &*parameter.name).collect();
        Self { declared, numbered, parameters }
    }

    /// Whether a name is a general register, which code must write before it reads it. A `%` name that is
    /// neither declared nor special counts as one.
    pub fn is_general(&self, name: &str) -> bool {
        if self.parameters.contains(name) {
            return false;
        }
        let is_declared = self.declared.contains(name) || self.number(name).is_some();
        is_declared || name.starts_with('%') && !is_special(name)
    }

    /// Whether a name is declared, with a number in range.
    pub fn is_declared(&self, name: &str) -> bool {
        let in_range = |(count, number): (Option<u64>, &str)| {
            number.parse::<u64>().is_ok_and(|number| count.is_none_or(|count| number < count))
        };
        self.declared.contains(name) || self.number(name).is_some_and(in_range)
    }

    /// How many registers of a numbered name are declared, and its number.
    fn number<'n>(&self, name: &'n str) -> Option<(Option<u64>, &'n str)> {
        let (prefix, number) = name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
        let count = self.numbered.get(prefix).filter(|_| !number.is_empty())?;
        Some((*count, number))
    }
}

/// Whether a name is a special register: `%tid.x`.
pub(crate) fn is_special(name: &str) -> bool {
    let Some(rest) = name.strip_prefix('%') else { return false };
    let base = rest.split('.').next().unwrap_or_default();
    SPECIAL.contains(&base) || SPECIAL_PREFIXES.iter().any(|prefix| base.starts_with(prefix))
}
