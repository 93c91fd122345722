//! Facts from PTX and SASS.

use std::collections::BTreeMap;

use super::{
    Assembled, Copy, Evidence, Facts, Fault, FileKind, Launch, Level, Matmul, Role, Space, Spills, Witness,
    conflict::Fingerprint,
};
use crate::{
    gpu::{AssemblerReport, Code, Dead, Instruction, Language, Undefined, first_product},
    source::{Damage, Place},
};

/// Reads GPU code into the facts.
pub fn read(facts: &mut Facts, name: &str, text: &str, language: Language) -> (FileKind, Vec<Damage>) {
    let (code, level, kind) = match language {
        Language::Ptx => (Code::parse_ptx(text), Level::Ptx, FileKind::Ptx),
        Language::Sass => (Code::parse_sass(text), Level::Sass, FileKind::Sass),
    };
    let witness = Witness::new(name, text);
    let mut executed = Vec::new();
    let mut multiplies = false;
    for (function, reach) in code.functions().iter().zip(code.reach()) {
        for (number, instruction) in function.instructions.iter().enumerate() {
            let op = code.str(instruction.op);
            let evidence = || witness.at(instruction.op.start);
            let product = matmul_types(op);
            multiplies |= product.is_some();
            let dead = reach.as_ref().map_or(Some(Dead::Path), |reach| reach.dead(number));
            if let Some(dead) = dead {
                let line = evidence();
                let why = match dead {
                    Dead::Predicate => format!("its predicate {} is never true", code.str(instruction.guard)),
                    Dead::Path => "no path leads to it".to_owned(),
                };
                let says = format!("the {op} of line {} is never executed: {why}", line.place.line);
                facts.unexecuted.extend(product.map(|_| Fault { level, says, evidence: line }));
                continue;
            }
            executed.push(instruction);
            if !instruction.guard.is_empty()
                && reach.as_ref().is_some_and(|reach| reach.is_conditional(number))
            {
                let line = evidence();
                let guard = code.str(instruction.guard).trim_start_matches('@');
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
            let evidence = witness.at(function.instructions.get(number).map_or(0, |found| found.op.start));
            Fault { level, says: format!("line {} {what}", evidence.place.line), evidence }
        };
        match reach.undefined {
            Some(Undefined::Read(number, register)) => {
                let guard = function.instructions.get(number).map_or("", |found| code.str(found.guard));
                let reads = if guard.trim_start_matches(['@', '!']) == register {
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
        let scalar = (language == Language::Ptx).then(|| first_product(&code, function, &reach)).flatten();
        facts.scalar_products.extend(scalar.map(|number| {
            fault(number, "adds a product of two values from memory, without the tensor cores".to_owned())
        }));
    }
    if language == Language::Sass {
        facts.unaccounted.extend(scalar_flood(&code, &executed, &witness));
    }
    if multiplies {
        let names = code.functions().iter().map(|function| code.str(function.name).to_owned());
        facts.code.push(Fingerprint::of_code(name, kind, names.collect()));
    }
    settle_copies(facts, level, places_in_turn(&code, &executed));
    if language == Language::Ptx {
        facts.launch = facts.launch.take().or_else(|| launch(&code, &witness));
    }
    // Registers are assigned by the assembler, so only its output shows spills.
    if language == Language::Sass && facts.spills.is_none() && !code.functions().is_empty() {
        let spill = |i: &&Instruction| matches!(code.str(i.op).split('.').next(), Some("STL" | "LDL"));
        let first = code.instructions().find(spill).or_else(|| code.instructions().next());
        facts.spills = Some(Spills {
            instructions: code.instructions().filter(spill).count(),
            executed: None,
            evidence: witness.at(first.map_or(0, |first| first.op.start)),
        });
    }
    (kind, code.damage().to_vec())
}

/// Machine code that multiplies and adds more often than its tensor core instructions explain: each thread of the 128 of
/// a warpgroup holds its part of a 64xN result, and adds it to the sum at most once per instruction that makes it.
fn scalar_flood(code: &Code<'_>, executed: &[&Instruction], witness: &Witness<'_>) -> Option<Fault> {
    /// 128 threads share 64 rows.
    const THREADS_PER_ROW: u64 = 2;
    let columns = |instruction: &&Instruction| {
        matmul_shapes(code.str(instruction.op))?.into_iter().last()?.into_iter().last()
    };
    let results: Vec<u64> = executed.iter().filter_map(columns).map(|n| n / THREADS_PER_ROW).collect();
    let explained: u64 = results.iter().sum();
    let is_sum = |instruction: &&&Instruction| {
        match code.str(instruction.op).split('.').next() {
            Some("FFMA" | "FFMA2" | "DFMA" | "IDP" | "IDP4A") => true,
            // Times zero it only loads a constant.
            Some("HFMA2") => !code.str(instruction.operands).contains("RZ"),
            _ => false,
        }
    };
    let sums = executed.iter().filter(is_sum).count() as u64;
    let first = executed.iter().find(is_sum).filter(|_| sums > explained && !results.is_empty())?;
    let says = format!(
        "{sums} scalar multiplications with sums are in the machine code, and its tensor core instructions explain {explained}"
    );
    Some(Fault { level: Level::Sass, says, evidence: witness.at(first.op.start) })
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

/// What a text with one kernel declares about its launch: `.maxntid 384, 1, 1` and `.minnctapersm 1`.
fn launch(code: &Code<'_>, witness: &Witness<'_>) -> Option<Launch> {
    let [kernel] = code.functions() else { return None };
    let header = code.str(kernel.header);
    let threads = [".maxntid", ".reqntid"].into_iter().find_map(|name| declared(header, name));
    let line = threads.map_or(kernel.name.start, |(at, _)| kernel.header.start + at as u32);
    Some(Launch {
        entry: code.str(kernel.name).to_owned(),
        target: code.target().to_owned(),
        threads: threads.map(|(_, threads)| threads),
        blocks_per_sm: declared(header, ".minnctapersm").map_or(1, |(_, blocks)| blocks),
        evidence: witness.at(line),
    })
}

/// The product of the numbers behind a word, and where the word is.
fn declared(header: &str, word: &str) -> Option<(usize, u64)> {
    let at = header.find(word)?;
    let numbers = header.get(at + word.len()..)?.split('.').next()?;
    let number = |text: &str| text.trim().parse().ok();
    let product = numbers.split(',').try_fold(1u64, |product, text| product.checked_mul(number(text)?));
    Some((at, product.filter(|product| *product > 0)?))
}

/// Reads the assembler's account into the facts.
pub fn read_report(facts: &mut Facts, name: &str, text: &str) -> (FileKind, Vec<Damage>) {
    let witness = Witness::new(name, text);
    let line = |at: Option<usize>| Some(witness.at(u32::try_from(at?).ok()?));
    facts.assembler = AssemblerReport::parse(text).and_then(|report| {
        let registers_line = line(AssemblerReport::registers_at(text))?;
        Some(Assembled { report, registers_line, spills_line: line(AssemblerReport::spills_at(text))? })
    });
    let damage = facts.assembler.is_none().then(|| Damage {
        place: Place { line: 1, column: 1 },
        what: "the registers and spills of a kernel are not in this report".to_owned(),
    });
    (FileKind::Assembler, damage.into_iter().collect())
}

/// How an asynchronous copy goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The copy engine fetches a tile that a tensor map describes.
    TileIn,
    /// Some bytes in a row are fetched.
    RowIn,
    /// Something is written to device memory.
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
    // What is fetched in rows is settled when all of the text is read.
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

/// Places that take turns, where the kernel makes barriers in shared memory. Every place has one that says it is full and one that says it is
/// empty, each kind with an arrival count of its own, which is the last operand. Barriers for other things come singly.
fn places_in_turn(code: &Code<'_>, executed: &[&Instruction]) -> Option<usize> {
    let makes = |op: &str| op.starts_with("SYNCS.EXCH") || op.starts_with("mbarrier.init");
    let mut of_kind: BTreeMap<&str, usize> = BTreeMap::new();
    for instruction in executed.iter().filter(|instruction| makes(code.str(instruction.op))) {
        let count = code.str(instruction.operands).rsplit(',').next().unwrap_or_default().trim();
        *of_kind.entry(count).or_default() += 1;
    }
    let mut kinds: Vec<usize> = of_kind.into_values().collect();
    kinds.sort_unstable_by(|a, b| b.cmp(a));
    match kinds[..] {
        [] => None,
        // Both kinds have the same count.
        [both] | [both, 1, ..] if both > 1 => Some(both.div_ceil(2)),
        [places] | [_, places, ..] => Some(places),
    }
}

/// Says of each fetch what it moves, and into how many places in turn. Where the copy engine fetches the tiles, what is
/// fetched beside them is their scales.
fn settle_copies(facts: &mut Facts, level: Level, places: Option<usize>) {
    let mut copies: Vec<_> =
        facts.copies.iter_mut().filter(|copy| copy.level == level && copy.inbound).collect();
    let tiles = copies.iter().any(|copy| copy.role == Some(Role::Data));
    for copy in &mut copies {
        copy.role.get_or_insert(if tiles { Role::Scale } else { Role::Data });
        copy.depth = places;
    }
}

/// Operand types of a tensor core instruction, in the spelling of HLO. `wgmma...m64n128k32.f32.e4m3.e4m3` names the
/// accumulator and then both operands; `QGMMA.64x128x32.F32.E4M3.E4M3` does too; `HGMMA.64x128x16.F32.BF16` names one
/// type for both, and none for f16.
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

/// Whether an instruction makes a product, or starts products or waits for them.
fn is_of_product(op: &str) -> bool {
    matmul_types(op).is_some() || op.starts_with("wgmma.") || op.starts_with("tcgen05.")
}

/// Shapes of its operands: `m64n128k32` and `64x128x32` multiply 64x32 by 32x128.
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
