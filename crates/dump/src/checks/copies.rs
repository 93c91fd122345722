//! Checks on copies: asynchronous, balanced, double-buffered.

use super::{CheckOutcome, counted};
use crate::facts::{Copy, Facts, Level, Role, Space};

/// The kernel's own copies at one level, without those that XLA issues around it.
fn kernel_copies(facts: &Facts, level: Level) -> Vec<&Copy> {
    facts.copies.iter().filter(|copy| copy.level == level && level != Level::Hlo).collect()
}

/// Whether the listing was executed, so that the absence of a copy is a proof.
fn executed(facts: &Facts, level: Level) -> bool {
    level == Level::Llo && facts.cycles.is_some()
}

pub(super) fn async_copies(facts: &Facts, level: Level) -> CheckOutcome {
    let copies = kernel_copies(facts, level);
    // Inputs come from HBM; the guides may leave the source open.
    let fetch = copies.iter().find(|copy| {
        copy.inbound && copy.role != Some(Role::Scale) && matches!(copy.from, Space::Hbm | Space::Unstated)
    });
    match fetch {
        Some(copy) => {
            let starts: u64 = copies.iter().map(|copy| copy.starts).sum();
            let how = if copy.overlaps_multiply.is_some() { "executed" } else { "in the text" };
            CheckOutcome::pass(
                format!("{} {how}", counted(starts as usize, "copy")),
                vec![copy.evidence.clone()],
            )
        }
        None if executed(facts, level) => {
            let evidence = copies.first().map(|copy| copy.evidence.clone());
            CheckOutcome::fail(
                "the kernel starts no copy of its data from HBM",
                evidence.into_iter().collect(),
            )
        }
        None if level == Level::Guide && guide_without_copies(facts) => {
            CheckOutcome::fail("there is no async-copy-start in this file", Vec::new())
        }
        None => CheckOutcome::unknown(
            "no copy is in these files, and copies that the compiler adds show only in the LLO listing: give the \
             packed-bundles-post-ra one",
        ),
    }
}

/// A hand-written program with matmuls or buffers but no copies.
fn guide_without_copies(facts: &Facts) -> bool {
    let guide = |level: Level| level == Level::Guide;
    let says_anything = facts.buffers.iter().any(|buffer| guide(buffer.level))
        || facts.operands.iter().any(|operand| guide(operand.level));
    says_anything && !facts.copies.iter().any(|copy| guide(copy.level))
}

pub(super) fn copies_balanced(facts: &Facts, level: Level) -> CheckOutcome {
    if let Some(race) = facts.races.iter().find(|race| race.level == level) {
        return CheckOutcome::fail(race.says.clone(), vec![race.evidence.clone()]);
    }
    let balances = || facts.balances.iter().filter(|balance| balance.level == level);
    if let Some(balance) = balances().find(|balance| !balance.faults.is_empty()) {
        return CheckOutcome::fail(balance.faults.join("; "), vec![balance.evidence.clone()]);
    }
    if balances().any(|balance| !balance.conclusive) {
        let what = if level == Level::Llo { "the listing" } else { "the Mosaic text" };
        return CheckOutcome::obscured(format!(
            "{what} does not determine every address and predicate of its copies, waits and accesses"
        ));
    }
    match balances().find(|balance| balance.conclusive && balance.checked > 0) {
        Some(balance) => {
            let says = match level {
                Level::Guide => format!("{}, each awaited once", counted(balance.checked, "copy")),
                _ => format!("{}, all at zero at the end", counted(balance.checked, "semaphore")),
            };
            CheckOutcome::pass(says, vec![balance.evidence.clone()])
        }
        None => CheckOutcome::unknown(
            "copies and waits match only along an execution: give the packed-bundles-post-ra listing",
        ),
    }
}

pub(super) fn double_buffered(facts: &Facts, level: Level) -> CheckOutcome {
    if executed(facts, level) {
        return double_buffered_execution(facts);
    }
    let copies: Vec<_> = kernel_copies(facts, level)
        .into_iter()
        .filter(|copy| copy.inbound && copy.role != Some(Role::Scale))
        .collect();
    // Mosaic text can be executed too, where the kernel issues its own DMAs.
    if !copies.is_empty() && copies.iter().all(|copy| copy.overlaps_multiply.is_some()) {
        let mut operands: Vec<_> = copies.iter().filter_map(|copy| copy.operand).collect();
        operands.dedup();
        let routes = operands.iter().map(|operand| {
            let routes = copies.iter().copied().filter(|copy| copy.operand == Some(*operand));
            (*operand, routes.collect::<Vec<_>>())
        });
        return copied_ahead(routes);
    }
    double_buffered_declaration(facts, level, &copies)
}

/// From the declarations in the text.
fn double_buffered_declaration(facts: &Facts, level: Level, copies: &[&Copy]) -> CheckOutcome {
    let buffers = facts.buffers.iter().filter(|buffer| buffer.level == level && level != Level::Llo);
    let data: Vec<_> = buffers
        .filter(|buffer| buffer.role == Role::Data && buffer.copied_to && buffer.space == Space::Vmem)
        .collect();
    if data.is_empty() || copies.is_empty() {
        return CheckOutcome::unknown(
            "whether copies overlap with multiplications shows only in the packed-bundles-post-ra listing",
        );
    }
    // Two buffers help only if copies go to the slot that is not in use.
    if let Some(copy) = copies.iter().find(|copy| copy.depth == Some(1)) {
        return CheckOutcome::fail(
            "every copy goes to the same slot of its buffer",
            vec![copy.evidence.clone()],
        );
    }
    let single = data
        .iter()
        .find(|buffer| buffer.dims.len() < 3 || buffer.dims.first().is_none_or(|&depth| depth < 2));
    match single {
        Some(buffer) => {
            let says = format!("{} {:?} has no second buffer", buffer.name, buffer.dims);
            CheckOutcome::fail(says, vec![buffer.evidence.clone()])
        }
        None => {
            let evidence = data.first().map(|buffer| buffer.evidence.clone());
            CheckOutcome::pass(
                format!("{} of depth 2 or more", counted(data.len(), "data buffer")),
                evidence.into_iter().collect(),
            )
        }
    }
}

/// From the execution of the listing: the kernel must copy every data operand.
fn double_buffered_execution(facts: &Facts) -> CheckOutcome {
    let inputs = facts.operands.iter().filter(|operand| {
        operand.level == Level::Llo
            && operand.role == Role::Data
            && !operand.output
            && !operand.dims.is_empty()
    });
    let mut operands = Vec::new();
    for operand in inputs {
        let routes = facts
            .copies
            .iter()
            .filter(|copy| copy.level == Level::Llo && copy.inbound && copy.operand == Some(operand.index));
        let routes: Vec<_> = routes.collect();
        if routes.is_empty() {
            let says =
                format!("no copy of operand {} is in flight while the matrix units work", operand.index);
            return CheckOutcome::fail(says, vec![operand.evidence.clone()]);
        }
        operands.push((operand.index, routes));
    }
    copied_ahead(operands)
}

/// Checks that each operand with several copies alternates between slots, and is copied during matmuls.
/// Beside such an operand, another one may stay on chip whole, copied in parts.
fn copied_ahead<'f>(operands: impl IntoIterator<Item = (usize, Vec<&'f Copy>)>) -> CheckOutcome {
    let (mut proof, mut whole) = (Vec::new(), None);
    for (index, routes) in operands {
        if let Some(read) = routes.iter().find_map(|copy| copy.read_too_early.as_ref()) {
            let line = read.place.line;
            let says = format!("line {line} reads operand {index} where a copy of it is still on its way to");
            return CheckOutcome::fail(says, vec![read.clone()]);
        }
        let starts: u64 = routes.iter().map(|copy| copy.starts).sum();
        let Some(first) = routes.first().filter(|_| starts > 1) else { continue };
        let places: usize = routes.iter().filter_map(|copy| copy.depth).sum();
        let is_ahead = |copy: &Copy| {
            copy.overlaps_multiply == Some(true) && (copy.depth >= Some(2) || copy.fills_each_place_once())
        };
        let ahead = routes.iter().find(|copy| places >= 2 && is_ahead(copy));
        let is_late = || {
            let says = format!("no copy of operand {index} is in flight while the matrix units work");
            CheckOutcome::fail(says, vec![first.evidence.clone()])
        };
        match ahead {
            Some(copy) => proof.push(copy.evidence.clone()),
            None if places < 2 => {
                let says = format!(
                    "operand {index} is copied {starts} times into one place, so no copy can run ahead"
                );
                return CheckOutcome::fail(says, vec![first.evidence.clone()]);
            }
            None if routes.iter().all(|copy| copy.fills_each_place_once()) => {
                whole.get_or_insert_with(is_late);
            }
            None => return is_late(),
        }
    }
    match (proof.len(), whole) {
        (0, Some(is_late)) => is_late,
        (0, None) => CheckOutcome::unknown("every operand is copied once: there is nothing to overlap"),
        (blocks, _) => CheckOutcome::pass(
            format!("{} prefetched into two or more buffers", counted(blocks, "data operand")),
            proof,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks::Verdict, facts::Evidence, source::Place};

    fn copy(starts: u64, depth: usize, overlaps_multiply: bool) -> Copy {
        let place = Place { line: 1, column: 1 };
        Copy {
            level: Level::Llo,
            from: Space::Hbm,
            to: Space::Vmem,
            operand: None,
            role: Some(Role::Data),
            inbound: true,
            starts,
            bytes: None,
            depth: Some(depth),
            overlaps_multiply: Some(overlaps_multiply),
            read_too_early: None,
            evidence: Evidence { file: String::new(), place, excerpt: String::new() },
        }
    }

    #[test]
    fn an_operand_may_stay_on_chip_beside_one_that_is_prefetched() {
        let verdict = |x: &Copy, w: &Copy| copied_ahead([(0, vec![x]), (1, vec![w])]).verdict;
        let (once, parts, streamed) = (copy(1, 1, false), copy(2, 2, false), copy(9, 2, true));
        assert_eq!(verdict(&parts, &streamed), Verdict::Pass);
        assert_eq!(verdict(&once, &streamed), Verdict::Pass);
        // Neither runs ahead, a place is used again, or there is one place.
        assert_eq!(verdict(&parts, &parts), Verdict::Fail);
        assert_eq!(verdict(&parts, &once), Verdict::Fail);
        assert_eq!(verdict(&copy(3, 2, false), &streamed), Verdict::Fail);
        assert_eq!(verdict(&copy(2, 1, false), &streamed), Verdict::Fail);
        assert_eq!(verdict(&once, &once), Verdict::NotObservable);
    }

    #[test]
    fn two_blocks_may_have_a_buffer_each() {
        let verdict = |w: [&Copy; 2]| copied_ahead([(1, w.to_vec())]).verdict;
        let (before, beside) = (copy(1, 1, false), copy(1, 1, true));
        assert_eq!(verdict([&before, &beside]), Verdict::Pass);
        assert_eq!(verdict([&before, &before]), Verdict::Fail);
        // The copies during matmuls all go to one place.
        assert_eq!(verdict([&before, &copy(9, 1, true)]), Verdict::Fail);
    }
}
