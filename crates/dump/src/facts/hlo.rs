//! Facts from optimized HLO, the program around the kernel.

use super::{
    Copy, Evidence, Facts, FileKind, Level, Matmul, MemoryUse, Operand, Origin, Space, Witness, guide,
    mosaic,
    role::{Array, Roles},
};
use crate::{
    hlo::{Instruction, KernelBody, KernelCall, Module, Shape},
    source::Damage,
};

/// Reads a program into the facts.
pub(super) fn read(facts: &mut Facts, name: &str, text: &str) -> (FileKind, Vec<Damage>) {
    let module = Module::parse(text);
    if guide::is_guide(&module) {
        return guide::read(facts, name, &module);
    }
    let witness = Witness::new(name, text);
    // What the program around a named kernel does says nothing about the kernel.
    let around = module.instructions().filter(|_| facts.operation.is_none());
    for instruction in around {
        match module.str(instruction.opcode) {
            opcode if multiplies(&module, instruction, opcode) => {
                let found = matmul(&module, instruction, Level::Hlo, &witness);
                // Unreadable operands may have any type.
                facts.matmuls.push(found.unwrap_or_else(|| Matmul {
                    level: Level::Hlo,
                    lhs: String::new(),
                    rhs: String::new(),
                    shapes: None,
                    emulated: false,
                    count: 1,
                    evidence: witness.at(instruction.span.start),
                }));
            }
            "copy-start" => facts.copies.extend(copy(&module, instruction, &witness)),
            _ => {}
        }
    }
    let mut calls = module.kernel_calls();
    if let Some(operation) = &facts.operation {
        calls.retain(|call| call.name == *operation);
    }
    facts.call_conflicts.extend(call_conflict(name, &calls));
    for call in calls {
        kernel(facts, &call, name, &witness);
    }
    (FileKind::Hlo, module.damage().to_vec())
}

/// Whether an instruction is a matmul outside the kernel, in any computation of the program.
fn multiplies(module: &Module<'_>, instruction: &Instruction, opcode: &str) -> bool {
    const LIBRARY_CALLS: [&str; 4] = ["gemm", "matmul", "dot", "conv"];
    match opcode {
        "dot" | "convolution" | "ragged-dot" | "scaled-dot" => true,
        "custom-call" => {
            let target = module.attribute(instruction, "custom_call_target").unwrap_or_default();
            let target = target.to_ascii_lowercase();
            LIBRARY_CALLS.iter().any(|call| target.contains(call))
        }
        _ => false,
    }
}

/// A matmul outside the kernel; operand types come from their definitions.
pub(super) fn matmul(
    module: &Module<'_>,
    instruction: &Instruction,
    level: Level,
    witness: &Witness<'_>,
) -> Option<Matmul> {
    let operands = instruction.operands.as_ref()?;
    let shape = |index: usize| {
        let operand = *operands.get(index)?;
        // Older text has the shape before the name.
        let written = module.str(operand).rsplit_once(' ').and_then(|(shape, _)| Shape::parse(shape));
        let made = || {
            let producer = module.in_scope(instruction, module.operand_name(operand))?;
            module.shape(producer)
        };
        written.or_else(made)
    };
    let (lhs, rhs) = (shape(0)?, shape(1)?);
    let shapes = lhs.dims().zip(rhs.dims()).map(|(lhs, rhs)| [lhs.to_vec(), rhs.to_vec()]);
    Some(Matmul {
        level,
        lhs: lhs.element().to_owned(),
        rhs: rhs.element().to_owned(),
        shapes,
        emulated: false,
        count: 1,
        evidence: witness.at(instruction.span.start),
    })
}

/// `(destination, source, sync word) copy-start(..)`; the sync word is not data, whatever its memory space.
fn copy(module: &Module<'_>, instruction: &Instruction, witness: &Witness<'_>) -> Option<Copy> {
    let Shape::Tuple(parts) = module.shape(instruction)? else { return None };
    let [destination, source, ..] = parts.as_slice() else { return None };
    Some(Copy {
        level: Level::Hlo,
        from: Space::numbered(source.memory_space()),
        to: Space::numbered(destination.memory_space()),
        operand: None,
        role: None,
        inbound: true,
        starts: 1,
        bytes: destination.bytes(),
        depth: None,
        overlaps_multiply: None,
        read_too_early: None,
        evidence: witness.at(instruction.span.start),
    })
}

/// Why a program does not call exactly one readable kernel.
fn call_conflict(name: &str, calls: &[KernelCall]) -> Option<String> {
    if let [first, second, ..] = calls {
        let count = calls.len();
        let (first, second) = (&first.name, &second.name);
        return Some(format!(
            "{name} calls {count} TPU kernels, {first} and {second} among them: give the program of one kernel"
        ));
    }
    let unreadable = |call: &KernelCall| match &call.body {
        Some(KernelBody::Unreadable { what }) => Some(format!("{name} calls {}, and {what}", call.name)),
        _ => None,
    };
    calls.iter().find_map(unreadable)
}

fn kernel(facts: &mut Facts, call: &KernelCall, name: &str, witness: &Witness<'_>) {
    let evidence = witness.at_place(call.place);
    operands(facts, call, &evidence);
    facts.vmem_limit = call.vmem_limit.or(facts.vmem_limit);
    // Of several calls, the one with the largest VMEM use counts.
    let most = facts.vmem.as_ref().map_or(0, |vmem| vmem.used);
    if let Some(used) = call.vmem_used.filter(|used| *used >= most) {
        facts.vmem = Some(MemoryUse { used, limit: call.vmem_limit, origin: Origin::Stated, evidence });
    }
    if let Some(KernelBody::Text(text)) = &call.body {
        let inside = format!("{name} (body of {})", call.name);
        let (_, damage) = mosaic::read(facts, &inside, text);
        let says = damage.first().map(|damage| format!("{inside} is damaged at {damage}"));
        facts.call_conflicts.extend(says);
    }
}

fn operands(facts: &mut Facts, call: &KernelCall, evidence: &Evidence) {
    let array = |shape: &Shape| -> Option<(String, Vec<u64>)> {
        Some((shape.element().to_owned(), shape.dims()?.to_vec()))
    };
    let found: Vec<_> = call
        .operands
        .iter()
        .enumerate()
        .filter_map(|(index, operand)| {
            let shape = operand.shape.as_ref()?;
            let (element, dims) = array(shape)?;
            Some((index, operand.name.clone(), element, dims, Space::numbered(shape.memory_space())))
        })
        .collect();
    let roles = Roles::of(found.iter().map(|(_, _, element, dims, _)| Array { name: "", element, dims }));
    for (index, name, element, dims, space) in found {
        let role = roles.role(Array { name: "", element: &element, dims: &dims });
        let evidence = evidence.clone();
        facts.operands.push(Operand {
            level: Level::Hlo,
            index,
            name,
            output: false,
            element,
            dims,
            space,
            role,
            evidence,
        });
    }
}
