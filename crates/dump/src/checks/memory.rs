//! Checks on memory spaces and sizes.

use octile_core::device::tpu::TpuChip;

use super::{CheckOutcome, counted};
use crate::facts::{Copy, Evidence, Facts, Level, MemoryUse, Operand, Origin, Role, Space};

const NO_SCALES: &str = "no scale buffer is in these files";
const NO_DATA: &str = "no data buffer is in these files";

/// The input operands of one role at one level.
fn inputs(facts: &Facts, level: Level, role: Role) -> Vec<&Operand> {
    let operands = facts.operands.iter().filter(|operand| operand.level == level);
    // A scalar is neither data nor scales.
    let arrays = operands.filter(|operand| !operand.output && !operand.dims.is_empty());
    arrays.filter(|operand| operand.role == role).collect()
}

fn evidence<'a>(operands: impl IntoIterator<Item = &'a &'a Operand>) -> Vec<Evidence> {
    let mut evidence: Vec<Evidence> = Vec::new();
    for operand in operands {
        if !evidence.contains(&operand.evidence) {
            evidence.push(operand.evidence.clone());
        }
    }
    evidence
}

fn list<'a>(names: impl Iterator<Item = &'a Operand>) -> String {
    let names: Vec<_> =
        names.map(|operand| format!("operand {} ({})", operand.index, operand.element)).collect();
    names.join(", ")
}

pub(super) fn operands_in_hbm(facts: &Facts, level: Level) -> CheckOutcome {
    let data = inputs(facts, level, Role::Data);
    if data.is_empty() {
        return CheckOutcome::unknown(
            "the files do not state the memory space of the operands: give the LLO listing or the optimized HLO",
        );
    }
    let moved: Vec<_> = data.iter().filter(|operand| operand.space != Space::Hbm).copied().collect();
    if moved.is_empty() {
        return CheckOutcome::pass(format!("{} in HBM", list(data.iter().copied())), evidence(&data));
    }
    let unstated = moved.iter().any(|operand| operand.space == Space::Unstated);
    let how =
        if unstated { "no memory space is stated" } else { "copied into VMEM before the kernel starts" };
    CheckOutcome::fail(format!("{}: {how}", list(moved.iter().copied())), evidence(&moved))
}

/// DMAs of an operand into on-chip memory, from executed listings.
fn routes<'f>(facts: &'f Facts, operand: &Operand) -> Vec<&'f Copy> {
    let copies = facts.copies.iter().filter(|copy| copy.level == Level::Llo && copy.inbound);
    copies.filter(|copy| copy.operand == Some(operand.index)).collect()
}

pub(super) fn scales_staged(facts: &Facts, level: Level) -> CheckOutcome {
    if level != Level::Llo {
        return buffers_in(facts, level, Role::Scale, &Space::Smem, "scale");
    }
    let scales = inputs(facts, level, Role::Scale);
    if scales.is_empty() || facts.cycles.is_none() {
        return CheckOutcome::unknown(NO_SCALES);
    }
    let mut proof = Vec::new();
    for scale in &scales {
        let routes = routes(facts, scale);
        let to_smem = routes.iter().find(|copy| copy.to == Space::Smem);
        match (to_smem, routes.first()) {
            (Some(copy), _) => proof.push(copy.evidence.clone()),
            (None, _) if scale.space == Space::Smem => proof.push(scale.evidence.clone()),
            (None, Some(copy)) => {
                let says = format!("the scales of operand {} are copied to VMEM", scale.index);
                return CheckOutcome::fail(says, vec![copy.evidence.clone()]);
            }
            (None, None) => {
                let says = format!("the scales of operand {} never reach SMEM", scale.index);
                return CheckOutcome::fail(says, vec![scale.evidence.clone()]);
            }
        }
    }
    CheckOutcome::pass(format!("{} copied to SMEM", counted(scales.len(), "scale operand")), proof)
}

pub(super) fn data_on_chip(facts: &Facts, level: Level) -> CheckOutcome {
    if level != Level::Llo {
        return buffers_in(facts, level, Role::Data, &Space::Vmem, "data");
    }
    let data = inputs(facts, level, Role::Data);
    if data.is_empty() || facts.cycles.is_none() {
        return CheckOutcome::unknown(NO_DATA);
    }
    let mut proof = Vec::new();
    for operand in &data {
        let routes = routes(facts, operand);
        match routes.iter().find(|copy| copy.to == Space::Vmem) {
            Some(copy) => proof.push(copy.evidence.clone()),
            None if operand.space == Space::Vmem => proof.push(operand.evidence.clone()),
            None => {
                let says = format!("operand {} never reaches VMEM", operand.index);
                return CheckOutcome::fail(says, vec![operand.evidence.clone()]);
            }
        }
    }
    CheckOutcome::pass(format!("{} in VMEM", counted(data.len(), "data operand")), proof)
}

/// Checks that all copy destinations of a role are declared in one memory space. The allocation table of a
/// listing does not show which buffers are copied to.
fn buffers_in(facts: &Facts, level: Level, role: Role, space: &Space, what: &str) -> CheckOutcome {
    let buffers = facts.buffers.iter().filter(|buffer| buffer.level == level);
    let buffers: Vec<_> = buffers.filter(|buffer| buffer.role == role && buffer.copied_to).collect();
    let Some(first) = buffers.first() else {
        return CheckOutcome::unknown(if role == Role::Scale { NO_SCALES } else { NO_DATA });
    };
    match buffers.iter().find(|buffer| buffer.space != *space) {
        Some(buffer) => {
            let says = format!("{} {:?} {} is in {}", buffer.name, buffer.dims, buffer.element, buffer.space);
            CheckOutcome::fail(says, vec![buffer.evidence.clone()])
        }
        None => {
            let says = format!("{} in {space}", counted(buffers.len(), &format!("{what} buffer")));
            CheckOutcome::pass(says, vec![first.evidence.clone()])
        }
    }
}

pub(super) fn fits_on_chip(facts: &Facts, level: Level, chip: Option<&TpuChip>) -> CheckOutcome {
    // One figure counts: the compiler's own, else the sum of the buffers, some of which may share memory.
    let of_level = |vmem: &&MemoryUse| match vmem.origin {
        Origin::Stated => level == Level::Hlo,
        Origin::Listed => level == Level::Llo,
        Origin::Declared => level == Level::Mosaic,
    };
    let Some(vmem) = facts.vmem.as_ref().filter(of_level) else {
        let unsized_buffer = facts.buffers.iter().find(|buffer| buffer.level == level && buffer.is_unsized());
        if let Some(buffer) = unsized_buffer.filter(|_| facts.vmem.is_none()) {
            let (name, element) = (&buffer.name, &buffer.element);
            return CheckOutcome::obscured(format!(
                "the size of {name} is not known: its elements are {element}"
            ));
        }
        return CheckOutcome::unknown(
            "the files do not say how much VMEM the kernel uses: give the HLO from after code generation, or the \
             Mosaic text",
        );
    };
    let limit = vmem.limit.or(facts.vmem_limit).or(chip.map(|chip| chip.vmem_default as u64));
    let Some(limit) = limit else {
        let (used, how) = (vmem.used, origin(vmem.origin));
        return CheckOutcome::unknown(format!(
            "the kernel uses {used} bytes of VMEM{how}, but the limit is not known: name the chip"
        ));
    };
    let smem = facts.smem.as_ref().zip(chip.map(|chip| chip.smem as u64));
    let uses = [Some(("VMEM", vmem, limit)), smem.map(|(smem, limit)| ("SMEM", smem, limit))];
    let uses: Vec<_> = uses.into_iter().flatten().collect();
    let evidence: Vec<_> = uses.iter().map(|(_, memory, _)| memory.evidence.clone()).collect();
    if let Some((name, memory, limit)) = uses.iter().find(|(_, memory, limit)| memory.used > *limit) {
        let how = origin(memory.origin);
        let used = match memory.used {
            u64::MAX => "more than 2^64".to_owned(),
            used => used.to_string(),
        };
        let says = format!("{used} bytes of {name}{how}, where {limit} are allowed");
        return CheckOutcome::fail(says, vec![memory.evidence.clone()]);
    }
    let says = uses.iter().map(|(name, memory, limit)| {
        format!("{} of {limit} bytes of {name}{}", memory.used, origin(memory.origin))
    });
    CheckOutcome::pass(says.collect::<Vec<_>>().join("; "), evidence)
}

/// Where a figure comes from, to follow it in a sentence.
fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Stated => ", as the compiler states",
        Origin::Listed => " in the listing's table of buffers",
        Origin::Declared => " in the buffers that the kernel declares",
    }
}
