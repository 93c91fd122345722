//! From text to a [`Program`]: one instruction per line, the subset of PTX that the kernels of this project are written in.

mod decode;
mod header;
mod operands;

use std::collections::HashMap;

use octile_core::device::hopper::HopperGpu;
use thiserror::Error;

use crate::program::{Instruction, Op, Program, Registers, WARPGROUP_THREADS};
use decode::decode;
use header::ParameterList;
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

/// Instructions of a kernel: a hundred times what the longest of this project has.
const MOST_LINES: usize = 1 << 18;
/// Bytes of a line, which messages repeat.
const MOST_BYTES_OF_LINE: usize = 1 << 12;
/// Parameters of a kernel: the driver takes 4 KiB of them.
const MOST_PARAMETERS: usize = 1 << 10;

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

/// Where in the text a line is.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Before the kernel's braces, within, or behind them.
    Before,
    Within,
    Behind,
}

impl Program {
    /// Reads a module.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut entry = None;
        let (mut most_threads, mut blocks_per_sm) = (None, None);
        let (mut part, mut parameters) = (Part::Before, ParameterList::default());
        let mut names = Names::default();
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let fail = |problem: String| ParseError { line: number, problem };
            if line.len() > MOST_BYTES_OF_LINE {
                let bytes = line.len();
                return Err(fail(format!(
                    "it has {bytes} bytes, and the simulator takes up to {MOST_BYTES_OF_LINE}"
                )));
            }
            let line = line.split("//").next().unwrap_or_default().trim();
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            match first {
                "" | ".version" | ".address_size" | ".extern" | ".explicitcluster" | ".reqnctapercluster" => {
                }
                ".target" => header::target(rest).map_err(fail)?,
                ".visible" => {
                    if entry.is_some() {
                        return Err(fail("there is a second entry point".to_owned()));
                    }
                    let name = rest.strip_prefix(".entry ").and_then(|rest| rest.strip_suffix('('));
                    entry = Some(
                        name.ok_or_else(|| fail("this is no entry point".to_owned()))?.trim().to_owned(),
                    );
                }
                ".param" if names.parameters.len() == MOST_PARAMETERS => {
                    return Err(fail(format!("a kernel has at most {MOST_PARAMETERS} parameters")));
                }
                ".param" => names.parameters.push(parameters.take(rest).map_err(fail)?),
                ")" => parameters.end().map_err(fail)?,
                ".maxntid" => most_threads = Some(header::threads(rest).map_err(fail)?),
                ".minnctapersm" => blocks_per_sm = Some(header::blocks(rest).map_err(fail)?),
                "{" if part == Part::Before && entry.is_some() => part = Part::Within,
                "}" if part == Part::Within => part = Part::Behind,
                ".reg" if part == Part::Within => header::registers(rest, &mut names).map_err(fail)?,
                _ if line.starts_with('.') || !line.ends_with([';', ':']) => {
                    return Err(fail(format!("`{line}` is neither an instruction nor a declaration")));
                }
                _ if part != Part::Within => {
                    return Err(fail(format!("`{line}` is outside of the kernel")));
                }
                _ if lines.len() == MOST_LINES => {
                    return Err(fail(format!("the kernel has more than {MOST_LINES} instructions")));
                }
                _ => match line.strip_suffix(':') {
                    None => lines.push((number, line)),
                    Some(label) => {
                        if names.labels.insert(label.to_owned(), lines.len()).is_some() {
                            return Err(fail(format!("there is a second label `{label}`")));
                        }
                    }
                },
            }
        }
        let end = text.lines().count();
        let entry =
            entry.ok_or_else(|| ParseError { line: 1, problem: "there is no entry point".to_owned() })?;
        if part != Part::Behind {
            let problem = "the text ends inside of the kernel: it is cut off".to_owned();
            return Err(ParseError { line: end, problem });
        }
        let code = lines.iter().map(|&(number, line)| instruction(&names, number, line));
        let mut code = code.collect::<Result<Vec<_>, _>>()?;
        let allotted_registers = allotted_registers(&code, most_threads, blocks_per_sm)?;
        // The end of the text ends the kernel.
        code.push(Instruction { guard: None, op: Op::Return, line: end, text: "}".to_owned() });
        let (words, wides, predicates) = (names.words(), names.wides, names.predicates);
        Ok(Self {
            entry,
            parameters: names.parameters,
            most_threads: most_threads.unwrap_or(HopperGpu::THREADS_PER_BLOCK),
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
