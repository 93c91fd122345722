//! What a kernel declares before its instructions: target, parameters, threads, registers.

use octile_core::device::hopper::HopperGpu;

use super::{Names, operands::Problem};

/// How many registers of a kind there may be: every warp of the simulated machine has memory for all of them.
const MOST_REGISTERS: usize = 1 << 12;
/// Most threads of a block.
const MOST_THREADS: usize = HopperGpu::THREADS_PER_BLOCK;

/// `sm_90a`, the only target whose instructions are known here.
pub(super) fn target(name: &str) -> Result<(), Problem> {
    let (given, known) = (name.trim(), HopperGpu::TARGET);
    if given == known { Ok(()) } else { Err(format!("the target is {given}, not {known}")) }
}

/// Where a kernel's list of parameters is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum ParameterList {
    /// At its begin.
    #[default]
    Begin,
    /// Behind a parameter, or behind the comma that follows it.
    Parameter,
    Comma,
}

impl ParameterList {
    /// `.u32 m,`, `.u64 x` or `.align 64 .b8 map_a[128]`: the name.
    pub(super) fn take(&mut self, declaration: &str) -> Result<String, Problem> {
        if *self == Self::Parameter {
            return Err("a comma is missing before this parameter".to_owned());
        }
        let (declaration, has_comma) =
            declaration.strip_suffix(',').map_or((declaration, false), |declared| (declared, true));
        *self = if has_comma { Self::Comma } else { Self::Parameter };
        let words: Vec<&str> = declaration.split_whitespace().collect();
        let name = match words[..] {
            [".u32" | ".u64", name] => Some(name),
            [".align", "64", ".b8", name] => name.strip_suffix("[128]"),
            _ => None,
        };
        let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let name = name.filter(is_name).ok_or("this parameter is not known to the simulator")?;
        Ok(name.to_owned())
    }

    /// `)`
    pub(super) fn end(&self) -> Result<(), Problem> {
        if *self == Self::Comma {
            Err("a parameter is missing behind the last comma".to_owned())
        } else {
            Ok(())
        }
    }
}

/// `384, 1, 1`: the threads of a block.
pub(super) fn threads(declaration: &str) -> Result<usize, Problem> {
    let counts: Option<Vec<usize>> = declaration.split(',').map(|count| count.trim().parse().ok()).collect();
    match counts.as_deref() {
        Some(
            [threads @ 1..=MOST_THREADS]
            | [threads @ 1..=MOST_THREADS, 1]
            | [threads @ 1..=MOST_THREADS, 1, 1],
        ) => Ok(*threads),
        _ => Err(format!("the threads of a block are not 1 to {MOST_THREADS} along one dimension")),
    }
}

/// `2`: the blocks that share a multiprocessor.
pub(super) fn blocks(declaration: &str) -> Result<usize, Problem> {
    let blocks = declaration.trim().parse().ok().filter(|&blocks| blocks > 0);
    blocks.ok_or_else(|| "the number of blocks cannot be read".to_owned())
}

/// `.b32 %r<17>;`
pub(super) fn registers(declaration: &str, names: &mut Names) -> Result<(), Problem> {
    let (count, registers) =
        register_count(declaration, names).ok_or("this declaration of registers cannot be read")?;
    *registers = count.parse().ok().filter(|&count| count <= MOST_REGISTERS).ok_or_else(|| {
        format!("{count} registers of a kind are too many: the simulator takes up to {MOST_REGISTERS}")
    })?;
    Ok(())
}

/// `17`, and where that belongs.
fn register_count<'a, 't>(declaration: &'t str, names: &'a mut Names) -> Option<(&'t str, &'a mut usize)> {
    let (kind, registers) = declaration.split_once(' ')?;
    let (name, count) = registers.trim().strip_suffix(';')?.strip_suffix('>')?.split_once('<')?;
    if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let registers = match (kind, name) {
        (".b16", "%h") => &mut names.halves,
        (".b32", "%r") => &mut names.integers,
        (".b64", "%rd") => &mut names.wides,
        (".f32", "%f") => &mut names.floats,
        (".pred", "%p") => &mut names.predicates,
        _ => return None,
    };
    Some((count, registers))
}
