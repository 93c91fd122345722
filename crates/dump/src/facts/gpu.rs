//! Facts from PTX and SASS.

use super::{Copy, Evidence, Facts, FileKind, Level, Matmul, Space, Spills, Witness};
use crate::{
    gpu::{Code, Instruction, Language},
    source::Damage,
};

/// Reads GPU code into the facts.
pub fn read(facts: &mut Facts, name: &str, text: &str, language: Language) -> (FileKind, Vec<Damage>) {
    let (code, level, kind) = match language {
        Language::Ptx => (Code::parse_ptx(text), Level::Ptx, FileKind::Ptx),
        Language::Sass => (Code::parse_sass(text), Level::Sass, FileKind::Sass),
    };
    let witness = Witness::new(name, text);
    for instruction in code.instructions() {
        let op = code.str(instruction.op);
        let evidence = || witness.at(instruction.op.start);
        if let Some((lhs, rhs)) = matmul_types(op) {
            add_matmul(facts, level, lhs, rhs, evidence);
        } else if let Some((from, to)) = copy_spaces(op) {
            add_copy(facts, level, from, to, evidence);
        }
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

fn add_matmul(facts: &mut Facts, level: Level, lhs: &str, rhs: &str, evidence: impl Fn() -> Evidence) {
    let same = |matmul: &&mut Matmul| matmul.level == level && matmul.lhs == lhs && matmul.rhs == rhs;
    match facts.matmuls.iter_mut().find(same) {
        Some(matmul) => matmul.count += 1,
        None => facts.matmuls.push(Matmul {
            level,
            lhs: lhs.to_owned(),
            rhs: rhs.to_owned(),
            shapes: None,
            emulated: false,
            count: 1,
            evidence: evidence(),
        }),
    }
}

fn add_copy(facts: &mut Facts, level: Level, from: Space, to: Space, evidence: impl Fn() -> Evidence) {
    let same = |copy: &&mut Copy| copy.level == level && copy.from == from && copy.to == to;
    match facts.copies.iter_mut().find(same) {
        Some(copy) => copy.starts += 1,
        None => facts.copies.push(Copy {
            level,
            inbound: from == Space::Hbm,
            from,
            to,
            operand: None,
            role: None,
            starts: 1,
            bytes: None,
            depth: None,
            overlaps_multiply: None,
            evidence: evidence(),
        }),
    }
}

/// Operand types of a tensor core instruction, in the spelling of HLO. `wgmma...m64n128k32.f32.e4m3.e4m3` names the
/// accumulator and then both operands; `QGMMA.64x128x32.F32.E4M3.E4M3` does too; `HGMMA.64x128x16.F32.BF16` names one
/// type for both, and none for f16.
fn matmul_types(op: &str) -> Option<(&'static str, &'static str)> {
    let mnemonic = op.split('.').next()?;
    let ptx = matches!(mnemonic, "wgmma" | "mma") && (op.contains("mma_async") || op.starts_with("mma.sync"));
    let sass = ["QGMMA", "HGMMA", "IGMMA", "BGMMA", "HMMA", "QMMA", "IMMA", "DMMA"].contains(&mnemonic);
    if !(ptx || sass) {
        return None;
    }
    let types: Vec<_> = op.split('.').filter_map(element).collect();
    match (types.as_slice(), ptx) {
        // PTX for mma.sync names the result, both operands and the addend.
        ([_, lhs, rhs, _], true) | ([_, lhs, rhs], _) => Some((lhs, rhs)),
        ([_, both], _) => Some((both, both)),
        _ if matches!(mnemonic, "HGMMA" | "HMMA") => Some(("f16", "f16")),
        _ => Some(("", "")),
    }
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

/// Where an asynchronous copy goes.
fn copy_spaces(op: &str) -> Option<(Space, Space)> {
    let (inbound, outbound) = ((Space::Hbm, Space::Shared), (Space::Shared, Space::Hbm));
    let mnemonic = op.split('.').next()?;
    match mnemonic {
        "UTMALDG" | "LDGSTS" => Some(inbound),
        "UTMASTG" => Some(outbound),
        "cp" if op.starts_with("cp.async.bulk") && op.contains(".global.shared") => Some(outbound),
        "cp" if op.starts_with("cp.async.bulk") && !op.contains("group") && !op.contains("prefetch") => {
            Some(inbound)
        }
        "cp" if op.starts_with("cp.async.ca") || op.starts_with("cp.async.cg") => Some(inbound),
        _ => None,
    }
}
