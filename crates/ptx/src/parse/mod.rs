//! From text to a [`Program`]: one instruction per line, the subset of PTX that the kernels of this project are written in.

mod decode;
mod operands;

use std::collections::HashMap;

use octile_core::device::hopper::HopperGpu;
use thiserror::Error;

use crate::program::{Instruction, Op, Program, Registers, WARPGROUP_THREADS};
use decode::decode;
use operands::Operands;

/// What cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line} of the PTX: {problem}")]
pub struct ParseError {
    /// From 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: String,
}

/// How many registers of a kind there may be: more is damage, and every warp has all of them.
const MOST_REGISTERS: usize = 1 << 16;

/// Directives that say nothing to a simulator.
const PASSED_OVER: [&str; 6] =
    [".version", ".target", ".address_size", ".extern", ".explicitcluster", ".reqnctapercluster"];

/// The names that instructions refer to.
#[derive(Debug, Default)]
struct Names {
    parameters: Vec<String>,
    /// Where the 16-bit, 32-bit and float registers start among the words.
    halves: usize,
    integers: usize,
    floats: usize,
    wides: usize,
    predicates: usize,
    labels: HashMap<String, usize>,
}

impl Names {
    fn words(&self) -> usize {
        self.halves + self.integers + self.floats
    }
}

impl Program {
    /// Reads a module.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut entry = None;
        let (mut most_threads, mut blocks_per_sm) = (None, None);
        let mut names = Names::default();
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let fail = |problem: &str| ParseError { line: number, problem: problem.to_owned() };
            let line = line.split("//").next().unwrap_or_default().trim();
            if let Some(rest) = line.strip_prefix(".visible .entry ") {
                if entry.is_some() {
                    return Err(fail("there is a second entry point"));
                }
                entry = Some(rest.trim_end_matches('(').trim().to_owned());
            } else if line.starts_with(".param ") {
                let name = line.rsplit(' ').next().unwrap_or_default().trim_end_matches(',');
                names.parameters.push(name.split('[').next().unwrap_or_default().to_owned());
            } else if let Some(rest) = line.strip_prefix(".maxntid ") {
                let first = rest.split(',').next().unwrap_or_default().trim();
                most_threads = Some(first.parse().map_err(|_| fail("the number of threads cannot be read"))?);
            } else if let Some(rest) = line.strip_prefix(".minnctapersm ") {
                let blocks = rest.trim().parse().ok().filter(|&blocks| blocks > 0);
                blocks_per_sm = Some(blocks.ok_or_else(|| fail("the number of blocks cannot be read"))?);
            } else if let Some(rest) = line.strip_prefix(".reg ") {
                let (count, registers) = register_count(rest, &mut names)
                    .ok_or_else(|| fail("this declaration of registers cannot be read"))?;
                *registers = count;
            } else if let Some(label) = line.strip_suffix(':') {
                if names.labels.insert(label.to_owned(), lines.len()).is_some() {
                    return Err(fail(&format!("there is a second label `{label}`")));
                }
            } else if line.ends_with(';') && !line.starts_with('.') {
                lines.push((number, line));
            } else if !(["", "{", "}", ")"].contains(&line)
                || line.split(' ').next().is_some_and(|first| PASSED_OVER.contains(&first)))
            {
                return Err(fail(&format!("`{line}` is neither an instruction nor a declaration")));
            }
        }
        let code = lines.iter().map(|&(number, line)| instruction(&names, number, line));
        let mut code = code.collect::<Result<Vec<_>, _>>()?;
        let allotted_registers = allotted_registers(&code, most_threads, blocks_per_sm)?;
        // The end of the text ends the kernel.
        let (line, end) = (text.lines().count(), "}".to_owned());
        code.push(Instruction { guard: None, op: Op::Return, line, text: end });
        let entry =
            entry.ok_or_else(|| ParseError { line: 1, problem: "there is no entry point".to_owned() })?;
        let (words, wides, predicates) = (names.words(), names.wides, names.predicates);
        Ok(Self {
            entry,
            parameters: names.parameters,
            most_threads: most_threads.unwrap_or(1024),
            code,
            allotted_registers,
            words,
            wides,
            predicates,
        })
    }
}

/// Registers that the assembler allots to each thread of a kernel that changes that: as many as there are for the threads that
/// should be on a multiprocessor, in warpgroups, since each of its quarters holds one of four warps.
fn allotted_registers(
    code: &[Instruction],
    threads: Option<usize>,
    blocks: Option<usize>,
) -> Result<usize, ParseError> {
    let Some(changes) = code.iter().find(|instruction| matches!(instruction.op, Op::SetRegisters(_))) else {
        return Ok(0);
    };
    let (Some(threads), Some(blocks)) = (threads, blocks) else {
        let problem =
            format!("`{}`: without `.maxntid` and `.minnctapersm` the assembler ignores it", changes.text);
        return Err(ParseError { line: changes.line, problem });
    };
    let warpgroups = threads.div_ceil(WARPGROUP_THREADS);
    let threads = warpgroups.saturating_mul(WARPGROUP_THREADS).saturating_mul(blocks).max(1);
    let each = HopperGpu::REGISTERS_PER_SM / threads / HopperGpu::REGISTER_UNIT * HopperGpu::REGISTER_UNIT;
    Ok(each.min(Registers::MOST))
}

/// `.b32 %r<17>;`: 17, and where that belongs.
fn register_count<'a>(declaration: &str, names: &'a mut Names) -> Option<(usize, &'a mut usize)> {
    let (_, registers) = declaration.split_once(' ')?;
    let (name, count) = registers.trim().trim_end_matches(';').strip_suffix('>')?.split_once('<')?;
    let count: usize = count.parse().ok().filter(|&count| count <= MOST_REGISTERS)?;
    let registers = match name {
        "%h" => &mut names.halves,
        "%r" => &mut names.integers,
        "%rd" => &mut names.wides,
        "%f" => &mut names.floats,
        "%p" => &mut names.predicates,
        _ => return None,
    };
    Some((count, registers))
}

fn instruction(names: &Names, line: usize, text: &str) -> Result<Instruction, ParseError> {
    let fail = |problem: String| ParseError { line, problem };
    let text = text.trim_end_matches(';').trim();
    let (guard, rest) = match text.strip_prefix('@') {
        Some(guarded) => {
            let (guard, rest) =
                guarded.split_once(' ').ok_or_else(|| fail("a guard without an instruction".to_owned()))?;
            let (name, wanted) = guard.strip_prefix('!').map_or((guard, true), |name| (name, false));
            (Some((names.predicate(name).map_err(fail)?, wanted)), rest.trim())
        }
        None => (None, text),
    };
    let (name, operands) = rest.split_once(' ').unwrap_or((rest, ""));
    let operands = Operands::split(names, operands);
    let op = decode(name, operands).map_err(|problem| fail(format!("`{text}`: {problem}")))?;
    Ok(Instruction { guard, op, line, text: text.to_owned() })
}
