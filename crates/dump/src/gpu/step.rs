//! An instruction of GPU code: what it reads and writes.

use std::collections::HashSet;

use super::{Code, Function, Instruction};

/// An instruction, taken apart.
pub struct Step<'a> {
    /// The predicate that it is executed under, and whether that must be false.
    pub guard: Option<(&'a str, bool)>,
    op: &'a str,
    /// Operands in order, split at the outermost commas.
    pub operands: Vec<&'a str>,
}

impl<'a> Step<'a> {
    pub fn of(code: &Code<'a>, instruction: &Instruction) -> Self {
        let guard = code.str(instruction.guard).strip_prefix('@');
        let guard = guard.map(|guard| (guard.trim_start_matches('!'), guard.starts_with('!')));
        Self { guard, op: code.str(instruction.op), operands: split(code.str(instruction.operands)) }
    }

    /// The registers that it writes: its first operand, or those in the braces there.
    pub fn written(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let head = self.op.split('.').next().unwrap_or_default();
        let writes = match head {
            "bar" | "barrier" => self.op.contains(".red."),
            "st" | "red" | "bra" | "brx" | "ret" | "exit" | "nanosleep" | "stackrestore" => false,
            "BRA" | "STG" | "STS" => false,
            _ => true,
        };
        let first = self.operands.first().copied().filter(|first| writes && !first.starts_with('['));
        let first = first.unwrap_or_default().split(['{', '}', '|', ',', '(', ')', ' ', '\t', '\n']);
        first.filter(|name| is_register(name))
    }

    /// The registers that it reads.
    pub fn read(&self) -> impl Iterator<Item = &'a str> + '_ {
        let skipped = usize::from(self.written().next().is_some());
        let rest = self.operands.iter().skip(skipped);
        rest.flat_map(|operand| operand.split(|c: char| !is_name(c))).filter(|name| is_register(name))
    }

    pub fn head(&self) -> &'a str {
        self.op.split('.').next().unwrap_or_default()
    }

    pub fn op(&self) -> &'a str {
        self.op
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

pub fn is_register(name: &str) -> bool {
    name.starts_with(|c: char| c == '%' || c == '_' || c.is_ascii_alphabetic()) && name != "_"
}

/// Splits at commas that are in no bracket.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.extend(text.get(start..at).map(str::trim));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..).map(str::trim).filter(|last| !last.is_empty()));
    parts
}

/// Which names in a function of PTX are registers that its code must write before it reads them.
pub struct Registers<'a> {
    declared: HashSet<&'a str>,
    /// `%r` of `.reg .b32 %r<9>`.
    numbered: HashSet<&'a str>,
    parameters: HashSet<&'a str>,
}

impl<'a> Registers<'a> {
    pub fn of(code: &Code<'a>, function: &Function) -> Self {
        let words = |text: &'a str| text.split(|c: char| !is_name(c) && c != '<' && c != '>');
        let (mut declared, mut numbered) = (HashSet::new(), HashSet::new());
        for name in function.registers.iter().flat_map(|span| words(code.str(*span))) {
            match name.split_once('<') {
                Some((prefix, _)) => numbered.insert(prefix),
                None => !name.is_empty() && declared.insert(name),
            };
        }
        Self { declared, numbered, parameters: words(code.str(function.header)).collect() }
    }

    pub fn is_one(&self, name: &str) -> bool {
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
        if self.parameters.contains(name) {
            return false;
        }
        if let Some(rest) = name.strip_prefix('%') {
            let base = rest.split('.').next().unwrap_or_default();
            let families = ["lanemask_", "pm", "envreg", "reserved_smem_"];
            let is_declared = self.declared.contains(name) || self.is_numbered(name);
            return is_declared
                || !SPECIAL.contains(&base) && !families.iter().any(|family| base.starts_with(family));
        }
        self.declared.contains(name) || self.is_numbered(name)
    }

    fn is_numbered(&self, name: &str) -> bool {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        prefix.len() < name.len() && self.numbered.contains(prefix)
    }
}
