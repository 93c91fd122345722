//! Where things live.

use octile_core::device::tpu::TpuChip;

use super::{Outcome, counted};
use crate::facts::{Buffer, Copy, Evidence, Facts, Level, Operand, Origin, Role, Space};

/// The input operands of one role, from the latest stage that names operands.
fn inputs(facts: &Facts, role: Role) -> Vec<&Operand> {
    let operands = Facts::latest(&facts.operands, |operand| operand.level);
    // A scalar is neither data nor scales.
    let arrays = operands.into_iter().filter(|operand| !operand.output && !operand.dims.is_empty());
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

pub fn operands_in_hbm(facts: &Facts) -> Outcome {
    let data = inputs(facts, Role::Data);
    if data.is_empty() {
        return Outcome::unknown(
            "the files do not say where the operands live: give the LLO listing or the optimized HLO",
        );
    }
    let moved: Vec<_> = data.iter().filter(|operand| operand.space != Space::Hbm).copied().collect();
    if moved.is_empty() {
        return Outcome::pass(format!("{} in device memory", list(data.iter().copied())), evidence(&data));
    }
    let unstated = moved.iter().any(|operand| operand.space == Space::Unstated);
    let how =
        if unstated { "no memory space is stated" } else { "copied into VMEM before the kernel starts" };
    Outcome::fail(format!("{}: {how}", list(moved.iter().copied())), evidence(&moved))
}

/// Copies into the kernel that belong to an operand, from executed listings.
fn routes<'f>(facts: &'f Facts, operand: &Operand) -> Vec<&'f Copy> {
    let copies = facts.copies.iter().filter(|copy| copy.level == Level::Llo && copy.inbound);
    copies.filter(|copy| copy.operand == Some(operand.index)).collect()
}

pub fn scales_in_smem(facts: &Facts) -> Outcome {
    let scales: Vec<_> =
        inputs(facts, Role::Scale).into_iter().filter(|scale| scale.level == Level::Llo).collect();
    if scales.is_empty() || facts.cycles.is_none() {
        return buffers_in(facts, Role::Scale, &Space::Smem, "scale");
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
                return Outcome::fail(says, vec![copy.evidence.clone()]);
            }
            (None, None) => {
                let says = format!("the scales of operand {} never reach SMEM", scale.index);
                return Outcome::fail(says, vec![scale.evidence.clone()]);
            }
        }
    }
    Outcome::pass(format!("{} copied to SMEM", counted(scales.len(), "scale operand")), proof)
}

pub fn data_in_vmem(facts: &Facts) -> Outcome {
    let data: Vec<_> =
        inputs(facts, Role::Data).into_iter().filter(|data| data.level == Level::Llo).collect();
    if data.is_empty() || facts.cycles.is_none() {
        return buffers_in(facts, Role::Data, &Space::Vmem, "data");
    }
    let mut proof = Vec::new();
    for operand in &data {
        let routes = routes(facts, operand);
        match routes.iter().find(|copy| copy.to == Space::Vmem) {
            Some(copy) => proof.push(copy.evidence.clone()),
            None if operand.space == Space::Vmem => proof.push(operand.evidence.clone()),
            None => {
                let says = format!("operand {} never reaches VMEM", operand.index);
                return Outcome::fail(says, vec![operand.evidence.clone()]);
            }
        }
    }
    Outcome::pass(format!("{} in VMEM", counted(data.len(), "data operand")), proof)
}

/// Whether all buffers of a role that receive copies are in one memory, where only their declarations are known.
fn buffers_in(facts: &Facts, role: Role, space: &Space, what: &str) -> Outcome {
    // The allocation table of a listing does not tell which buffers are copied to.
    let declared: Vec<Buffer> =
        facts.buffers.iter().filter(|buffer| buffer.level != Level::Llo).cloned().collect();
    let buffers = Facts::latest(&declared, |buffer| buffer.level);
    let buffers: Vec<_> =
        buffers.into_iter().filter(|buffer| buffer.role == role && buffer.copied_to).collect();
    let Some(first) = buffers.first() else {
        return Outcome::unknown(format!("no {what} buffer is in these files"));
    };
    match buffers.iter().find(|buffer| buffer.space != *space) {
        Some(buffer) => {
            let says = format!("{} {:?} {} is in {}", buffer.name, buffer.dims, buffer.element, buffer.space);
            Outcome::fail(says, vec![buffer.evidence.clone()])
        }
        None => {
            let says = format!("{} in {space}", counted(buffers.len(), &format!("{what} buffer")));
            Outcome::pass(says, vec![first.evidence.clone()])
        }
    }
}

pub fn fits_vmem(facts: &Facts, chip: Option<&TpuChip>) -> Outcome {
    let Some(vmem) = &facts.vmem else {
        return Outcome::unknown(
            "the files do not say how much VMEM the kernel uses: give the HLO from after code generation, or the \
             Mosaic text",
        );
    };
    let limit = vmem.limit.or(facts.vmem_limit).or(chip.map(|chip| chip.vmem_default as u64));
    let Some(limit) = limit else {
        let (used, how) = (vmem.used, origin(vmem.origin));
        return Outcome::unknown(format!(
            "the kernel uses {used} bytes of VMEM{how}, but the limit is not known: name the chip"
        ));
    };
    let smem = facts.smem.as_ref().zip(chip.map(|chip| chip.smem as u64));
    let uses = [Some(("VMEM", vmem, limit)), smem.map(|(smem, limit)| ("SMEM", smem, limit))];
    let uses: Vec<_> = uses.into_iter().flatten().collect();
    let evidence: Vec<_> = uses.iter().map(|(_, memory, _)| memory.evidence.clone()).collect();
    if let Some((name, memory, limit)) = uses.iter().find(|(_, memory, limit)| memory.used > *limit) {
        let (used, how) = (memory.used, origin(memory.origin));
        let says = format!("{used} bytes of {name}{how}, where {limit} are allowed");
        return Outcome::fail(says, vec![memory.evidence.clone()]);
    }
    let says = uses.iter().map(|(name, memory, limit)| {
        format!("{} of {limit} bytes of {name}{}", memory.used, origin(memory.origin))
    });
    Outcome::pass(says.collect::<Vec<_>>().join("; "), evidence)
}

/// How a figure is known, to follow it in a sentence.
fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Stated => ", as the compiler states",
        Origin::Listed => " in the listing's table of buffers",
        Origin::Declared => " in the buffers that the kernel declares",
    }
}
