//! Checks on matmul operand types and spills.

use super::{CheckOutcome, counted};
use crate::facts::{Evidence, Facts, Fault, FileKind, Level, Matmul};

const NO_MATMUL: &str =
    "no matmul is in these files: give the LLO listing or Mosaic text of the kernel, or its PTX or SASS";

/// The matmuls of one level.
fn matmuls(facts: &Facts, level: Level) -> Vec<&Matmul> {
    facts.matmuls.iter().filter(|matmul| matmul.level == level).collect()
}

fn first_line(matmuls: &[&Matmul]) -> Vec<Evidence> {
    matmuls.first().map(|first| first.evidence.clone()).into_iter().collect()
}

fn is_fp8(element: &str) -> bool {
    element.starts_with("f8")
}

fn describe(matmul: &Matmul) -> String {
    let (lhs, rhs) = (&matmul.lhs, &matmul.rhs);
    if matmul.level == Level::Llo {
        format!("vmatmul on {lhs}")
    } else {
        format!("a product of {lhs} and {rhs}")
    }
}

/// The outcome of a level without matmuls, or with multiplications outside the matrix units.
fn besides(facts: &Facts, level: Level, matmuls: &[&Matmul]) -> Option<CheckOutcome> {
    let at_level = |fault: &&Fault| fault.level == level;
    let fault = match matmuls {
        [] => facts.unexecuted.iter().find(at_level),
        _ => facts.scalar_products.iter().find(at_level),
    };
    if let Some(fault) = fault {
        return Some(CheckOutcome::fail(fault.says.clone(), vec![fault.evidence.clone()]));
    }
    let unproven = facts.conditional.iter().chain(&facts.unaccounted).find(at_level);
    // The assembler removes no executed instruction.
    let assembled = facts.files.iter().any(|file| file.kind == FileKind::Sass && file.damage.is_empty());
    let count = |level: Level, like: &Matmul| -> usize {
        let same = |other: &&Matmul| other.level == level && other.lhs == like.lhs && other.rhs == like.rhs;
        facts.matmuls.iter().filter(same).map(|matmul| matmul.count).sum()
    };
    let written = facts.matmuls.iter().filter(|matmul| matmul.level == Level::Ptx);
    for matmul in written.filter(|_| level == Level::Sass && assembled) {
        let (asked, made) = (count(Level::Ptx, matmul), count(Level::Sass, matmul));
        if made < asked {
            let what = describe(matmul);
            let says = format!("{what} is in the PTX {asked} times, and {made} times in the machine code");
            return Some(CheckOutcome::fail(says, vec![matmul.evidence.clone()]));
        }
    }
    if let Some(fault) = unproven {
        if let Some(fault) = facts.invalid.iter().find(at_level) {
            return Some(CheckOutcome::fail(fault.says.clone(), vec![fault.evidence.clone()]));
        }
        return Some(CheckOutcome::obscured(fault.says.clone()));
    }
    matmuls.is_empty().then(|| match kernel_file(facts, level) {
        Some(file) => {
            CheckOutcome::fail(format!("{file} multiplies nothing: it is no kernel of a product"), Vec::new())
        }
        None => CheckOutcome::unknown(NO_MATMUL),
    })
}

/// The file with the complete code of a TPU kernel at a level, so that absence in it is a proof.
fn kernel_file(facts: &Facts, level: Level) -> Option<&str> {
    let kinds: &[FileKind] = match level {
        Level::Mosaic => &[FileKind::Mosaic],
        Level::Llo => &[FileKind::LloPacked, FileKind::LloFinal],
        _ => &[],
    };
    let file = facts.files.iter().find(|file| kinds.contains(&file.kind))?;
    Some(&file.name)
}

/// Obscured if the operand types of a matmul are missing.
fn unreadable_operands(matmuls: &[&Matmul]) -> Option<CheckOutcome> {
    let matmul = matmuls.iter().find(|matmul| matmul.lhs.is_empty() || matmul.rhs.is_empty())?;
    let Evidence { file, place, .. } = &matmul.evidence;
    Some(CheckOutcome::obscured(format!(
        "the operand types of the multiplication at {file}:{place} could not be read"
    )))
}

pub(super) fn native_fp8(facts: &Facts, level: Level) -> CheckOutcome {
    let matmuls = matmuls(facts, level);
    if let Some(outcome) = besides(facts, level, &matmuls) {
        return outcome;
    }
    let other = |element: &str| !element.is_empty() && !is_fp8(element);
    let foreign = |matmul: &&&Matmul| other(&matmul.lhs) || other(&matmul.rhs) || matmul.emulated;
    if let Some(matmul) = matmuls.iter().find(foreign) {
        let emulated = if matmul.emulated {
            ": the chip has no fp8 units and the compiler widens the operands"
        } else {
            ""
        };
        return CheckOutcome::fail(format!("{}{emulated}", describe(matmul)), vec![matmul.evidence.clone()]);
    }
    if let Some(outcome) = unreadable_operands(&matmuls) {
        return outcome;
    }
    let count: usize = matmuls.iter().map(|matmul| matmul.count).sum();
    let element = matmuls.first().map_or("", |first| &first.lhs);
    let says = format!("{}, all on {element}", counted(count, "multiplication"));
    CheckOutcome::pass(says, first_line(&matmuls))
}

pub(super) fn no_f32_matmul(facts: &Facts, level: Level) -> CheckOutcome {
    let matmuls = matmuls(facts, level);
    if let Some(outcome) = besides(facts, level, &matmuls) {
        return outcome;
    }
    // Tensor cores read tf32 from f32 in memory.
    let is_f32 = |element: &str| matches!(element, "f32" | "tf32");
    if let Some(matmul) = matmuls.iter().find(|matmul| is_f32(&matmul.lhs) || is_f32(&matmul.rhs)) {
        return CheckOutcome::fail(describe(matmul), vec![matmul.evidence.clone()]);
    }
    if let Some(outcome) = unreadable_operands(&matmuls) {
        return outcome;
    }
    CheckOutcome::pass("no multiplication takes f32 operands", first_line(&matmuls))
}

pub(super) fn no_spills(facts: &Facts, level: Level) -> CheckOutcome {
    let Some(spills) = facts.spills.as_ref().filter(|_| level == Level::Llo) else {
        return CheckOutcome::unknown("no listing of instructions (LLO or SASS) is among these files");
    };
    if spills.instructions == 0 {
        let says = "no vector register is stored to a spill slot";
        return CheckOutcome::pass(says, vec![spills.evidence.clone()]);
    }
    let executed = spills.executed.map_or(String::new(), |executed| format!(", executed {executed} times"));
    let says = format!("{} stores and reloads of spilled vector registers{executed}", spills.instructions);
    CheckOutcome::fail(says, vec![spills.evidence.clone()])
}
