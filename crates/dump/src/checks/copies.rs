//! How data moves.

use super::{Outcome, counted};
use crate::facts::{Buffer, Copy, Facts, Level, Role, Space};

/// Copies of the kernel itself; what XLA copies around it is not the kernel's.
fn kernel_copies(facts: &Facts) -> Vec<Copy> {
    facts.copies.iter().filter(|copy| copy.level != Level::Hlo).cloned().collect()
}

/// Whether the listing was executed, so that the absence of a copy means something.
fn executed(facts: &Facts) -> bool {
    facts.cycles.is_some()
}

pub fn async_dma(facts: &Facts) -> Outcome {
    let copies = kernel_copies(facts);
    let latest = Facts::latest(&copies, |copy| copy.level);
    let latest: Vec<_> =
        latest.into_iter().filter(|copy| !executed(facts) || copy.level == Level::Llo).collect();
    // The kernel's input has to come from outside; the guides may leave the source open.
    let fetch = latest.iter().find(|copy| {
        copy.inbound && copy.role != Some(Role::Scale) && matches!(copy.from, Space::Hbm | Space::Unstated)
    });
    match (fetch, executed(facts)) {
        (Some(copy), _) => {
            let starts: u64 = latest.iter().map(|copy| copy.starts).sum();
            let how = if copy.overlaps_multiply.is_some() { "executed" } else { "in the text" };
            Outcome::pass(format!("{} {how}", counted(starts as usize, "copy")), vec![copy.evidence.clone()])
        }
        (None, true) => {
            let evidence = latest.first().map(|copy| copy.evidence.clone());
            Outcome::fail(
                "the kernel starts no copy of its data from device memory",
                evidence.into_iter().collect(),
            )
        }
        (None, false) if guide_without_copies(facts) => {
            Outcome::fail("there is no async-copy-start in this file", Vec::new())
        }
        (None, false) => Outcome::unknown(
            "no copy is in these files, and copies that the compiler adds show only in the LLO listing: give the \
             packed-bundles-post-ra one",
        ),
    }
}

/// A hand-written program that multiplies or holds buffers but copies nothing.
fn guide_without_copies(facts: &Facts) -> bool {
    let guide = |level: Level| level == Level::Guide;
    let says_anything = facts.buffers.iter().any(|buffer| guide(buffer.level))
        || facts.operands.iter().any(|operand| guide(operand.level));
    says_anything && !facts.copies.iter().any(|copy| guide(copy.level))
}

pub fn dma_balanced(facts: &Facts) -> Outcome {
    let balances = Facts::latest(&facts.balances, |balance| balance.level);
    let faulty = facts.balances.iter().find(|balance| !balance.faults.is_empty());
    // A fault that the kernel's own text shows is one, whatever the later stages leave unsaid.
    if let Some(balance) = balances.iter().copied().find(|b| !b.faults.is_empty()).or(faulty) {
        return Outcome::fail(balance.faults.join("; "), vec![balance.evidence.clone()]);
    }
    match balances.iter().find(|balance| balance.conclusive) {
        Some(balance) if balance.checked > 0 => {
            let says = format!("{}, all at zero at the end", counted(balance.checked, "semaphore"));
            let says = if balance.level == Level::Guide {
                format!("{}, each awaited once", counted(balance.checked, "copy"))
            } else {
                says
            };
            Outcome::pass(says, vec![balance.evidence.clone()])
        }
        Some(_) | None if facts.cycles.as_ref().is_some_and(|cycles| cycles.unresolved_dma > 0) => {
            Outcome::unknown("some copies or waits use addresses that the listing does not determine")
        }
        _ => Outcome::unknown(match &facts.cycles_error {
            Some(error) => format!("copies and waits match only along an execution: {error}"),
            None => "copies and waits match only along an execution: give the packed-bundles-post-ra listing"
                .to_owned(),
        }),
    }
}

pub fn double_buffered(facts: &Facts) -> Outcome {
    if executed(facts) {
        return double_buffered_execution(facts);
    }
    let copies = kernel_copies(facts);
    let copies: Vec<_> = Facts::latest(&copies, |copy| copy.level)
        .into_iter()
        .filter(|copy| copy.inbound && copy.role != Some(Role::Scale))
        .collect();
    // The kernel's own text can be executed too, where copies are its own and not the compiler's.
    if !copies.is_empty() && copies.iter().all(|copy| copy.overlaps_multiply.is_some()) {
        let mut operands: Vec<_> = copies.iter().filter_map(|copy| copy.operand).collect();
        operands.dedup();
        let routes = operands.iter().map(|operand| {
            let routes = copies.iter().copied().filter(|copy| copy.operand == Some(*operand));
            (*operand, routes.collect::<Vec<_>>())
        });
        return copied_ahead(routes);
    }
    double_buffered_declaration(facts, &copies)
}

/// From what the text declares.
fn double_buffered_declaration(facts: &Facts, copies: &[&Copy]) -> Outcome {
    let declared: Vec<Buffer> =
        facts.buffers.iter().filter(|buffer| buffer.level != Level::Llo).cloned().collect();
    let buffers = Facts::latest(&declared, |buffer| buffer.level);
    let data: Vec<_> = buffers
        .into_iter()
        .filter(|buffer| buffer.role == Role::Data && buffer.copied_to && buffer.space == Space::Vmem)
        .collect();
    if data.is_empty() || copies.is_empty() {
        return Outcome::unknown(
            "whether copies overlap with multiplications shows only in the packed-bundles-post-ra listing",
        );
    }
    // Without a copy into another slot than the one in use, two buffers are only twice the memory.
    if let Some(copy) = copies.iter().find(|copy| copy.depth == Some(1)) {
        return Outcome::fail("every copy goes to the same slot of its buffer", vec![copy.evidence.clone()]);
    }
    let single = data
        .iter()
        .find(|buffer| buffer.dims.len() < 3 || buffer.dims.first().is_none_or(|&depth| depth < 2));
    match single {
        Some(buffer) => {
            let says = format!("{} {:?} has no second buffer", buffer.name, buffer.dims);
            Outcome::fail(says, vec![buffer.evidence.clone()])
        }
        None => {
            let evidence = data.first().map(|buffer| buffer.evidence.clone());
            Outcome::pass(
                format!("{} of depth 2 or more", counted(data.len(), "data buffer")),
                evidence.into_iter().collect(),
            )
        }
    }
}

/// From the execution of the listing: every data operand has to be copied by the kernel.
fn double_buffered_execution(facts: &Facts) -> Outcome {
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
            return Outcome::fail(says, vec![operand.evidence.clone()]);
        }
        operands.push((operand.index, routes));
    }
    copied_ahead(operands)
}

/// Whether, of each operand that is copied more than once, two places take turns, and one is filled while the matrix
/// units work on another.
fn copied_ahead<'f>(operands: impl IntoIterator<Item = (usize, Vec<&'f Copy>)>) -> Outcome {
    let mut proof = Vec::new();
    let mut blocks = 0;
    for (index, routes) in operands {
        if let Some(read) = routes.iter().find_map(|copy| copy.read_too_early.as_ref()) {
            let line = read.place.line;
            let says = format!("line {line} reads operand {index} where a copy of it is still on its way to");
            return Outcome::fail(says, vec![read.clone()]);
        }
        let starts: u64 = routes.iter().map(|copy| copy.starts).sum();
        let Some(first) = routes.first().filter(|_| starts > 1) else { continue };
        blocks += 1;
        let deep = routes.iter().find(|copy| copy.depth >= Some(2) && copy.overlaps_multiply == Some(true));
        match deep {
            Some(copy) => proof.push(copy.evidence.clone()),
            None => {
                let says = if first.depth.unwrap_or_default() < 2 {
                    format!(
                        "operand {index} is copied {starts} times into one place, so no copy can run ahead"
                    )
                } else {
                    format!("no copy of operand {index} is in flight while the matrix units work")
                };
                return Outcome::fail(says, vec![first.evidence.clone()]);
            }
        }
    }
    if blocks == 0 {
        return Outcome::unknown("every operand is copied once: there is nothing to overlap");
    }
    Outcome::pass(format!("{} copied ahead, into two places or more", counted(blocks, "data operand")), proof)
}
