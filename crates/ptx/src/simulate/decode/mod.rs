//! From the IR to a [`Program`]: the subset of PTX that the kernels of this project are written in.

mod header;
mod operands;
mod operation;

use std::collections::HashMap;

use octile_core::device::hopper::HopperGpu;
use thiserror::Error;

use super::program::{Instruction, Op, Program, Registers, WARPGROUP_THREADS};
use crate::{
    ir::{self, Function, Module},
    limits::{MAX_INSTRUCTION_BYTES, MAX_INSTRUCTIONS},
    parse::ParseError,
    verify::VerifyError,
};
use operands::Operands;

/// Why a text cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It is not PTX.
    #[error(transparent)]
    Syntax(#[from] ParseError),
    /// It refers to what it does not declare.
    #[error(transparent)]
    Invalid(#[from] VerifyError),
    /// The simulator does not support it.
    #[error("PTX line {line}: {message}")]
    Unsupported {
        /// From 1.
        line: usize,
        /// What is not supported.
        message: String,
    },
}

impl LoadError {
    pub(super) fn unsupported(line: u32, message: impl Into<String>) -> Self {
        Self::Unsupported { line: line as usize, message: message.into() }
    }
}

/// Names that instructions refer to.
#[derive(Debug, Default)]
struct Names<'m> {
    parameters: Vec<&'m str>,
    /// Number of 16-bit, 32-bit and float registers; they share one register file, in this order.
    halves: usize,
    integers: usize,
    floats: usize,
    wides: usize,
    predicates: usize,
    labels: HashMap<&'m str, usize>,
}

impl Program {
    /// Parses, verifies and decodes a text.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let module = Module::parse(text)?;
        if let Some(error) = module.verify().into_iter().next() {
            return Err(error.into());
        }
        let last = text.lines().count();
        Self::decode(&module, last)
    }

    /// Decodes a module with one kernel, whose text has `last` lines.
    fn decode(module: &Module<'_>, last: usize) -> Result<Self, LoadError> {
        let kernel = header::kernel(module)?;
        let parameters = header::parameters(kernel)?;
        let launch = header::LaunchBounds::of(kernel)?;
        let mut names = Names {
            parameters: parameters.iter().map(|(name, _)| &name[..]).collect(),
            labels: kernel.labels.iter().map(|label| (&*label.name, label.target)).collect(),
            ..Names::default()
        };
        for registers in &kernel.registers {
            header::registers(registers, &mut names)
                .map_err(|message| LoadError::unsupported(registers.position.line, message))?;
        }
        let mut code = decode_instructions(kernel, &names)?;
        let allotted_registers = allotted_registers(&code, launch)?;
        let words = names.halves + names.integers + names.floats;
        let (wides, predicates) = (names.wides, names.predicates);
        // Running off the end of the body returns.
        code.push(Instruction { guard: None, op: Op::Return, line: last, text: "}".to_owned() });
        Ok(Self {
            entry: kernel.name.clone().into_owned(),
            parameters,
            max_threads: launch.threads.unwrap_or(HopperGpu::THREADS_PER_BLOCK),
            code,
            allotted_registers,
            words,
            wides,
            predicates,
        })
    }
}

fn decode_instructions(kernel: &Function<'_>, names: &Names<'_>) -> Result<Vec<Instruction>, LoadError> {
    if let Some(beyond) = kernel.instructions.get(MAX_INSTRUCTIONS) {
        let message = format!("the kernel has more than {MAX_INSTRUCTIONS} instructions");
        return Err(LoadError::unsupported(beyond.position.line, message));
    }
    kernel.instructions.iter().map(|instruction| decode_instruction(names, instruction)).collect()
}

fn decode_instruction(names: &Names<'_>, source: &ir::Instruction<'_>) -> Result<Instruction, LoadError> {
    let text = source.to_string();
    let fail = |message: String| LoadError::unsupported(source.position.line, message);
    if text.len() > MAX_INSTRUCTION_BYTES {
        let bytes = text.len();
        return Err(fail(format!("the instruction has {bytes} bytes, more than {MAX_INSTRUCTION_BYTES}")));
    }
    let guard = source.guard.as_ref().map(|guard| Ok((names.predicate(&guard.predicate)?, !guard.negated)));
    let guard = guard.transpose().map_err(fail)?;
    let mut operands = Operands::new(names, &source.operands);
    let op = operation::decode(&source.opcode, &mut operands)
        .and_then(|op| operands.end().map(|()| op))
        .map_err(|message| fail(format!("`{text}`: {message}")))?;
    Ok(Instruction { guard, op, line: source.position.line as usize, text })
}

/// Registers per thread that the assembler allots to a kernel with `setmaxnreg`: as many as fit for the
/// threads that must be on an SM, in whole warpgroups, since each SM quarter holds one of four warps.
fn allotted_registers(code: &[Instruction], launch: header::LaunchBounds) -> Result<usize, LoadError> {
    let Some(changes) = code.iter().find(|instruction| matches!(instruction.op, Op::SetRegisters(_))) else {
        return Ok(0);
    };
    let (Some(threads), Some(ctas)) = (launch.threads, launch.ctas_per_sm) else {
        let message =
            format!("`{}`: the assembler ignores it without `.maxntid` and `.minnctapersm`", changes.text);
        return Err(LoadError::unsupported(changes.line as u32, message));
    };
    let warpgroups = threads.div_ceil(WARPGROUP_THREADS);
    let threads = warpgroups.saturating_mul(WARPGROUP_THREADS).saturating_mul(ctas).max(1);
    let each = HopperGpu::REGISTERS_PER_SM / threads / HopperGpu::REGISTER_UNIT * HopperGpu::REGISTER_UNIT;
    Ok(each.min(Registers::MAX))
}
