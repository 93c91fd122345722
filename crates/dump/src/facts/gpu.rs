//! Facts from PTX and SASS.

use std::collections::BTreeMap;

use super::{
    Assembled, Copy, Evidence, Facts, Fault, FileKind, Launch, Level, Matmul, Role, Space, Spills, Witness,
    conflict::Fingerprint,
};
use octile_ptx::ir::Instruction;

use crate::{
    gpu::{AssemblerReport, Code, Dead, Language, Undefined, first_product},
    source::{Damage, Place},
};

/// Reads GPU code into the facts.
pub(super) fn read(facts: &mut Facts, name: &str, text: &str, language: Language) -> (FileKind, Vec<Damage>) {
    let (code, level, kind) = match language {
        Language::Ptx => (Code::parse_ptx(text), Level::Ptx, FileKind::Ptx),
        Language::Sass => (Code::parse_sass(text), Level::Sass, FileKind::Sass),
    };
    let witness = Witness::new(name, text);
    let mut executed = Vec::new();
    let mut multiplies = false;
    for (function, reach) in code.functions().iter().zip(code.reach()) {
        for (number, instruction) in function.instructions.iter().enumerate() {
            let op = &*instruction.opcode;
            let evidence = || witness.at(instruction.position.offset);
            let product = matmul_types(op);
            multiplies |= product.is_some();
            let dead = reach.as_ref().map_or(Some(Dead::Path), |reach| reach.dead(number));
            if let Some(dead) = dead {
                let line = evidence();
                let why = match dead {
                    Dead::Predicate => format!("its predicate {} is never true", guard(instruction)),
                    Dead::Path => "no path leads to it".to_owned(),
                };
                let says = format!("the {op} of line {} is never executed: {why}", line.place.line);
                facts.unexecuted.extend(product.map(|_| Fault { level, says, evidence: line }));
                continue;
            }
            executed.push(instruction);
            if reach.as_ref().is_some_and(|reach| reach.is_conditional(number)) {
                let line = evidence();
                let guard = guard(instruction);
                let guard = guard.trim_start_matches('@');
                let says = format!(
                    "the {op} of line {} is executed only if {guard} holds, which cannot be decided",
                    line.place.line
                );
                facts.conditional.extend(is_of_product(op).then_some(Fault { level, says, evidence: line }));
            }
            if let Some((lhs, rhs)) = product {
                add_matmul(facts, level, (lhs, rhs), matmul_shapes(op), evidence);
            } else if let Some(way) = Way::of(op) {
                add_copy(facts, level, way, evidence);
            }
        }
        let Some(reach) = reach else { continue };
        let fault = |number: usize, what: String| {
            let evidence =
                witness.at(function.instructions.get(number).map_or(0, |found| found.position.offset));
            Fault { level, says: format!("line {} {what}", evidence.place.line), evidence }
        };
        match reach.undefined {
            Some(Undefined::Read(number, register)) => {
                let guard = function.instructions.get(number).and_then(|found| found.guard.as_ref());
                let reads = if guard.is_some_and(|guard| guard.predicate == register) {
                    format!("is predicated on {register}")
                } else {
                    format!("computes what a predicate depends on from {register}")
                };
                let says = format!("{reads}, which is not written on every path to it");
                facts.invalid.push(fault(number, says));
            }
            Some(Undefined::TooLarge) => {
                let says = "begins a function that is too large to tell whether its predicates are written";
                facts.unaccounted.push(fault(0, says.to_owned()));
            }
            None => {}
        }
        let scalar = (language == Language::Ptx).then(|| first_product(function, &reach)).flatten();
        facts.scalar_products.extend(scalar.map(|number| {
            fault(number, "adds a product of two values from memory, without tensor cores".to_owned())
        }));
    }
    if language == Language::Sass {
        facts.unaccounted.extend(scalar_flood(&executed, &witness));
    }
    if multiplies {
        let names = code.functions().iter().map(|function| function.name.to_string());
        facts.code.push(Fingerprint::of_code(name, kind, names.collect()));
    }
    settle_copies(facts, level, pipeline_stages(&executed));
    if language == Language::Ptx {
        facts.launch = facts.launch.take().or_else(|| launch(&code, &witness));
    }
    // Registers are assigned by the assembler, so only its output shows spills.
    if language == Language::Sass && facts.spills.is_none() && !code.functions().is_empty() {
        let spill = |i: &&Instruction<'_>| matches!(i.mnemonic(), "STL" | "LDL");
        let first = code.instructions().find(spill).or_else(|| code.instructions().next());
        facts.spills = Some(Spills {
            instructions: code.instructions().filter(spill).count(),
            executed: None,
            evidence: witness.at(first.map_or(0, |first| first.position.offset)),
        });
    }
    (kind, code.damage().to_vec())
}

/// The guard as text: `@!%p1`.
fn guard(instruction: &Instruction<'_>) -> String {
    instruction.guard.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Finds SASS with more scalar multiply-adds than its MMAs explain: each of the 128 threads of a warpgroup
/// holds its part of a 64xN accumulator, and promotes it at most once per MMA.
fn scalar_flood(executed: &[&Instruction<'_>], witness: &Witness<'_>) -> Option<Fault> {
    /// 128 threads share 64 rows.
    const THREADS_PER_ROW: u64 = 2;
    let columns = |instruction: &&Instruction<'_>| {
        matmul_shapes(&instruction.opcode)?.into_iter().last()?.into_iter().last()
    };
    let results: Vec<u64> = executed.iter().filter_map(columns).map(|n| n / THREADS_PER_ROW).collect();
    let explained: u64 = results.iter().sum();
    let is_sum = |instruction: &&&Instruction<'_>| match instruction.mnemonic() {
        "FFMA" | "FFMA2" | "DFMA" | "IDP" | "IDP4A" => true,
        // Times zero it only loads a constant.
        "HFMA2" => !instruction.operands.iter().flat_map(|o| o.words()).any(|word| word.contains("RZ")),
        _ => false,
    };
    let sums = executed.iter().filter(is_sum).count() as u64;
    let first = executed.iter().find(is_sum).filter(|_| sums > explained && !results.is_empty())?;
    let says = format!(
        "the machine code has {sums} scalar multiply-adds, but its MMA instructions explain {explained}"
    );
    Some(Fault { level: Level::Sass, says, evidence: witness.at(first.position.offset) })
}

fn add_matmul(
    facts: &mut Facts,
    level: Level,
    (lhs, rhs): (&str, &str),
    shapes: Option<[Vec<u64>; 2]>,
    evidence: impl Fn() -> Evidence,
) {
    let same = |matmul: &&mut Matmul| {
        matmul.level == level && matmul.lhs == lhs && matmul.rhs == rhs && matmul.shapes == shapes
    };
    match facts.matmuls.iter_mut().find(same) {
        Some(matmul) => matmul.count += 1,
        None => facts.matmuls.push(Matmul {
            level,
            lhs: lhs.to_owned(),
            rhs: rhs.to_owned(),
            shapes,
            emulated: false,
            count: 1,
            evidence: evidence(),
        }),
    }
}

/// Launch bounds that a text with one kernel declares: `.maxntid 384, 1, 1` and `.minnctapersm 1`.
fn launch(code: &Code<'_>, witness: &Witness<'_>) -> Option<Launch> {
    let [kernel] = code.functions() else { return None };
    let declared = |name: &str| {
        let directive = kernel.directives.iter().find(|directive| directive.name == name)?;
        let mut counts = directive.arguments.iter().map(|count| count.parse().ok());
        let product = counts.try_fold(1u64, |product, count| product.checked_mul(count?));
        Some((directive.position.offset, product.filter(|product| *product > 0)?))
    };
    let threads = [".maxntid", ".reqntid"].into_iter().find_map(declared);
    Some(Launch {
        entry: kernel.name.to_string(),
        target: code.target().to_owned(),
        threads: threads.map(|(_, threads)| threads),
        blocks_per_sm: declared(".minnctapersm").map_or(1, |(_, ctas)| ctas),
        evidence: witness.at(threads.map_or(kernel.position.offset, |(at, _)| at)),
    })
}

/// Reads a ptxas report into the facts.
pub(super) fn read_report(facts: &mut Facts, name: &str, text: &str) -> (FileKind, Vec<Damage>) {
    let witness = Witness::new(name, text);
    let line = |at: Option<usize>| Some(witness.at(u32::try_from(at?).ok()?));
    facts.assembler = AssemblerReport::parse(text).and_then(|report| {
        let registers_line = line(AssemblerReport::registers_at(text))?;
        Some(Assembled { report, registers_line, spills_line: line(AssemblerReport::spills_at(text))? })
    });
    let damage = facts.assembler.is_none().then(|| Damage {
        place: Place { line: 1, column: 1 },
        what: "this ptxas report has no register and spill figures".to_owned(),
    });
    (FileKind::Assembler, damage.into_iter().collect())
}

/// Direction and kind of an asynchronous copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// TMA load of a tile.
    TileIn,
    /// Load of contiguous bytes: `cp.async` or bulk copy.
    RowIn,
    /// Store to device memory.
    Out,
}

impl Way {
    fn of(op: &str) -> Option<Self> {
        let mnemonic = op.split('.').next()?;
        let bulk = op.starts_with("cp.async.bulk");
        match mnemonic {
            "UTMALDG" => Some(Self::TileIn),
            "LDGSTS" => Some(Self::RowIn),
            "UBLKCP" if op.contains(".S.G") => Some(Self::RowIn),
            "UTMASTG" | "UBLKCP" => Some(Self::Out),
            "cp" if bulk && op.contains(".global.shared") => Some(Self::Out),
            "cp" if bulk && (op.contains("group") || op.contains("prefetch")) => None,
            "cp" if op.starts_with("cp.async.bulk.tensor") => Some(Self::TileIn),
            "cp" if bulk || op.starts_with("cp.async.ca") || op.starts_with("cp.async.cg") => {
                Some(Self::RowIn)
            }
            _ => None,
        }
    }
}

fn add_copy(facts: &mut Facts, level: Level, way: Way, evidence: impl Fn() -> Evidence) {
    let inbound = way != Way::Out;
    // The role of row copies is known once the whole text is read.
    let role = (way != Way::RowIn).then_some(Role::Data);
    let same = |copy: &&mut Copy| copy.level == level && copy.inbound == inbound && copy.role == role;
    let (from, to) = if inbound { (Space::Hbm, Space::Shared) } else { (Space::Shared, Space::Hbm) };
    match facts.copies.iter_mut().find(same) {
        Some(copy) => copy.starts += 1,
        None => facts.copies.push(Copy {
            level,
            inbound,
            from,
            to,
            operand: None,
            role,
            starts: 1,
            bytes: None,
            depth: None,
            overlaps_multiply: None,
            read_too_early: None,
            evidence: evidence(),
        }),
    }
}

/// Number of pipeline stages, inferred from mbarrier inits grouped by arrival count (the last operand). Every
/// stage has a full and an empty barrier, each kind with its own count; barriers for other purposes come
/// singly.
fn pipeline_stages(executed: &[&Instruction<'_>]) -> Option<usize> {
    let is_init = |op: &str| op.starts_with("SYNCS.EXCH") || op.starts_with("mbarrier.init");
    let mut of_kind: BTreeMap<String, usize> = BTreeMap::new();
    for instruction in executed.iter().filter(|instruction| is_init(&instruction.opcode)) {
        let count = instruction.operands.last().map(ToString::to_string).unwrap_or_default();
        *of_kind.entry(count).or_default() += 1;
    }
    let mut kinds: Vec<usize> = of_kind.into_values().collect();
    kinds.sort_unstable_by(|a, b| b.cmp(a));
    match kinds[..] {
        [] => None,
        // Full and empty barriers have the same count.
        [both] | [both, 1, ..] if both > 1 => Some(both.div_ceil(2)),
        [stages] | [_, stages, ..] => Some(stages),
    }
}

/// Sets role and pipeline depth of each load. Beside TMA loads of tiles, other loads are of their scales.
fn settle_copies(facts: &mut Facts, level: Level, stages: Option<usize>) {
    let mut copies: Vec<_> =
        facts.copies.iter_mut().filter(|copy| copy.level == level && copy.inbound).collect();
    let tiles = copies.iter().any(|copy| copy.role == Some(Role::Data));
    for copy in &mut copies {
        copy.role.get_or_insert(if tiles { Role::Scale } else { Role::Data });
        copy.depth = stages;
    }
}

/// Operand types of an MMA instruction, as HLO spells them. `wgmma...m64n128k32.f32.e4m3.e4m3` names the
/// accumulator and then both operands; `QGMMA.64x128x32.F32.E4M3.E4M3` does too; `HGMMA.64x128x16.F32.BF16`
/// names one type for both, and none for f16.
fn matmul_types(op: &str) -> Option<(&'static str, &'static str)> {
    let mnemonic = op.split('.').next()?;
    let ptx = matches!(mnemonic, "wgmma" | "mma" | "wmma" | "tcgen05")
        && op.split('.').any(|part| matches!(part, "mma" | "mma_async"));
    let sass = ["QGMMA", "HGMMA", "IGMMA", "BGMMA", "HMMA", "QMMA", "IMMA", "DMMA"].contains(&mnemonic);
    if !(ptx || sass) {
        return None;
    }
    let types: Vec<_> = op.split('.').filter_map(element).collect();
    match (types.as_slice(), ptx) {
        // `mma` and `wmma` name the result, both operands and the addend.
        ([_, lhs, rhs, _], true) | ([_, lhs, rhs], _) => Some((lhs, rhs)),
        ([_, both], _) => Some((both, both)),
        _ if matches!(mnemonic, "HGMMA" | "HMMA") => Some(("f16", "f16")),
        _ => Some(("", "")),
    }
}

/// Whether an instruction is an MMA, or commits or waits for MMAs.
fn is_of_product(op: &str) -> bool {
    matmul_types(op).is_some() || op.starts_with("wgmma.") || op.starts_with("tcgen05.")
}

/// Operand shapes of an MMA: `m64n128k32` and `64x128x32` multiply 64x32 by 32x128.
fn matmul_shapes(op: &str) -> Option<[Vec<u64>; 2]> {
    let shape = |part: &str| -> Option<[Vec<u64>; 2]> {
        let ptx = part.strip_prefix('m').map(|part| part.replace(['n', 'k'], "x"));
        let sizes: Option<Vec<u64>> =
            ptx.as_deref().unwrap_or(part).split('x').map(|size| size.parse().ok()).collect();
        let &[m, n, k] = sizes?.as_slice() else { return None };
        Some([vec![m, k], vec![k, n]])
    };
    op.split('.').find_map(shape)
}

fn element(part: &str) -> Option<&'static str> {
    Some(match part {
        "e4m3" | "E4M3" => "f8e4m3fn",
        "e5m2" | "E5M2" => "f8e5m2",
        "f32" | "F32" => "f32",
        "tf32" | "TF32" => "tf32",
        "bf16" | "BF16" => "bf16",
        "f16" | "F16" => "f16",
        "s32" | "S32" => "s32",
        "s8" | "S8" => "s8",
        "u8" | "U8" => "u8",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_matrix_instructions() {
        for op in ["wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3", "QGMMA.64x128x32.F32.E4M3.E4M3"] {
            assert_eq!(matmul_shapes(op), Some([vec![64, 32], vec![32, 128]]), "{op}");
        }
        for op in ["HMMA", "mma.sync.m16n8", "QGMMA.64x128.F32", "wgmma.mma_async.m9n9n9k9"] {
            assert_eq!(matmul_shapes(op), None, "{op}");
        }
    }
}
