//! What the arithmetic units are given.

use super::{Outcome, counted};
use crate::facts::{Facts, Level, Matmul};

const NO_MATMUL: &str = "no multiplication is in these files: give the LLO listing or the Mosaic text of the kernel, or its PTX or SASS";

/// The multiplications of one level.
fn matmuls(facts: &Facts, level: Level) -> Vec<&Matmul> {
    facts.matmuls.iter().filter(|matmul| matmul.level == level).collect()
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

pub fn native_fp8(facts: &Facts, level: Level) -> Outcome {
    let matmuls = matmuls(facts, level);
    let Some(first) = matmuls.first() else { return Outcome::unknown(NO_MATMUL) };
    let foreign = |matmul: &&&Matmul| !is_fp8(&matmul.lhs) || !is_fp8(&matmul.rhs) || matmul.emulated;
    if let Some(matmul) = matmuls.iter().find(foreign) {
        let emulated = if matmul.emulated {
            ": the chip has no fp8 units and the compiler widens the operands"
        } else {
            ""
        };
        return Outcome::fail(format!("{}{emulated}", describe(matmul)), vec![matmul.evidence.clone()]);
    }
    let count: usize = matmuls.iter().map(|matmul| matmul.count).sum();
    Outcome::pass(
        format!("{}, all on {}", counted(count, "multiplication"), first.lhs),
        vec![first.evidence.clone()],
    )
}

pub fn no_f32_matmul(facts: &Facts, level: Level) -> Outcome {
    let matmuls = matmuls(facts, level);
    let Some(first) = matmuls.first() else { return Outcome::unknown(NO_MATMUL) };
    if let Some(matmul) = matmuls.iter().find(|matmul| matmul.lhs == "f32" || matmul.rhs == "f32") {
        return Outcome::fail(describe(matmul), vec![matmul.evidence.clone()]);
    }
    // A listing whose operand type is not named could hide one.
    if let Some(matmul) = matmuls.iter().find(|matmul| matmul.lhs.is_empty()) {
        let says =
            format!("the operand type of the multiplication at {} is not known", matmul.evidence.place);
        return Outcome::obscured(says);
    }
    Outcome::pass("no multiplication takes f32 operands", vec![first.evidence.clone()])
}

pub fn no_spills(facts: &Facts, level: Level) -> Outcome {
    let Some(spills) = facts.spills.as_ref().filter(|_| level == Level::Llo) else {
        return Outcome::unknown("no listing of instructions (LLO or SASS) is among these files");
    };
    if spills.instructions == 0 {
        let says = "no vector register is stored to a spill slot";
        return Outcome::pass(says, vec![spills.evidence.clone()]);
    }
    let executed = spills.executed.map_or(String::new(), |executed| format!(", executed {executed} times"));
    let says = format!("{} stores and reloads of spilled vector registers{executed}", spills.instructions);
    Outcome::fail(says, vec![spills.evidence.clone()])
}
