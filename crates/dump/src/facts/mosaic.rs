//! Facts from Mosaic text: what the kernel asks for, which does not prove that the compiler did it.

use std::collections::BTreeMap;

use super::{
    Balance, Buffer, Copy, Evidence, Facts, Fault, FileKind, Level, Matmul, Role, Space, Witness,
    conflict::Declaration,
    file::text_hash,
    memory,
    role::{Array, Roles},
};
use crate::{
    mosaic::{Argument, ArgumentRole, Execution, MosaicKernel, TensorType, View, operands},
    source::{Damage, Place},
};

/// Reads a kernel into the facts.
pub(super) fn read(facts: &mut Facts, name: &str, text: &str) -> (FileKind, Vec<Damage>) {
    let known = is_known(facts, text);
    let witness = Witness::new(name, text);
    let kernel = match MosaicKernel::parse(text) {
        Ok(kernel) => kernel,
        Err(error) => {
            let says = format!("{name} could not be read: {error}");
            let evidence = witness.at_place(error.place());
            facts.unreadable.extend((!known).then_some(Fault { level: Level::Mosaic, says, evidence }));
            return (FileKind::Mosaic, error.into_damage().into_iter().collect());
        }
    };
    if known {
        return (FileKind::Mosaic, kernel.damage);
    }
    for matmul in &kernel.matmuls {
        facts.matmuls.push(Matmul {
            level: Level::Mosaic,
            lhs: matmul.lhs.element.to_ascii_lowercase(),
            rhs: matmul.rhs.element.to_ascii_lowercase(),
            shapes: Some([matmul.lhs.dims.clone(), matmul.rhs.dims.clone()]),
            emulated: false,
            count: 1,
            evidence: witness.at_place(matmul.place),
        });
    }
    buffers(facts, &kernel, &witness);
    facts.declarations.push(Declaration { file: name.to_owned(), operands: operands(&kernel) });
    // Damaged text is not what will run.
    let execution = kernel.damage.is_empty().then(|| Execution::of(&kernel));
    match execution {
        Some(Ok(execution)) => executed(facts, &kernel, &execution, &witness),
        not_executed => {
            facts.unfollowed.extend(not_executed.and_then(Result::err).map(|error| Fault {
                level: Level::Mosaic,
                says: format!("the Mosaic text could not be executed: {error}"),
                evidence: witness.at(0),
            }));
            copies(facts, &kernel, &witness);
            balance(facts, &kernel, &witness);
        }
    }
    (FileKind::Mosaic, kernel.damage)
}

/// Whether this kernel was read before, from a file or from the custom call that embeds it.
fn is_known(facts: &mut Facts, text: &str) -> bool {
    let hash = text_hash(text);
    let known = facts.kernels.contains(&hash);
    facts.kernels.push(hash);
    known
}

fn array(memory: &TensorType) -> Array<'_> {
    Array { name: "", element: &memory.element, dims: &memory.dims }
}

/// On-chip buffers: scratch, windows and scalar prefetch.
fn buffers(facts: &mut Facts, kernel: &MosaicKernel, witness: &Witness<'_>) {
    let on_chip = || kernel.arguments.iter().filter(|argument| argument.role != ArgumentRole::Operand);
    let roles = Roles::of(on_chip().map(|argument| array(&argument.memory)));
    for argument in on_chip().filter(|argument| !argument.memory.element.starts_with('!')) {
        let targeted = |view: &Option<View>| view.as_ref().is_some_and(|view| view.root == argument.name);
        let inbound = kernel.dmas.iter().filter(|dma| !dma.waits).any(|dma| targeted(&dma.target));
        // The compiler double-buffers windows.
        let copies = if argument.role == ArgumentRole::Window { 2 } else { 1 };
        facts.buffers.push(Buffer {
            level: Level::Mosaic,
            name: argument.name.clone(),
            element: argument.memory.element.to_ascii_lowercase(),
            dims: argument.memory.dims.clone(),
            space: Space::named(&argument.memory.space),
            bytes: memory::padded_bytes(&argument.memory).map(|bytes| bytes.saturating_mul(copies)),
            role: roles.role(array(&argument.memory)),
            copied_to: inbound || argument.role != ArgumentRole::Scratch,
            evidence: witness.at_place(argument.place),
        });
    }
}

/// The HBM operands of a kernel and their roles.
struct Operands<'s> {
    arguments: Vec<&'s Argument>,
    roles: Roles,
}

impl<'s> Operands<'s> {
    fn of(kernel: &'s MosaicKernel) -> Self {
        let arguments = kernel.arguments.iter().filter(|argument| argument.role == ArgumentRole::Operand);
        let arguments: Vec<_> = arguments.collect();
        let roles = Roles::of(arguments.iter().map(|argument| array(&argument.memory)));
        Self { arguments, roles }
    }

    /// The DMAs between two arguments.
    fn copy(&self, kernel: &MosaicKernel, source: &str, target: &str, evidence: Evidence) -> Copy {
        let index_of = |name: &str| self.arguments.iter().position(|argument| argument.name == name);
        let space = |name: &str| {
            let argument = kernel.arguments.iter().find(|argument| argument.name == name);
            argument.map_or(Space::Unstated, |argument| Space::named(&argument.memory.space))
        };
        let from_operand = index_of(source);
        let operand = from_operand.or_else(|| index_of(target));
        let argument = operand.and_then(|index| self.arguments.get(index));
        // An output is data whatever its type.
        let role = |argument: &&Argument| match from_operand {
            Some(_) => self.roles.role(array(&argument.memory)),
            None => Role::Data,
        };
        Copy {
            level: Level::Mosaic,
            from: space(source),
            to: space(target),
            operand,
            role: argument.map(role),
            inbound: from_operand.is_some(),
            starts: 0,
            bytes: None,
            depth: None,
            overlaps_multiply: None,
            read_too_early: None,
            evidence,
        }
    }
}

/// Facts from the execution of the kernel.
fn executed(facts: &mut Facts, kernel: &MosaicKernel, execution: &Execution, witness: &Witness<'_>) {
    let operands = Operands::of(kernel);
    for route in &execution.routes {
        let copy = operands.copy(kernel, &route.source, &route.target, witness.at_place(route.place));
        facts.copies.push(Copy {
            starts: route.starts,
            bytes: Some(route.bytes),
            depth: Some(route.depth),
            overlaps_multiply: Some(route.overlaps_multiply),
            read_too_early: route.read_too_early.map(|place| witness.at_place(place)),
            ..copy
        });
    }
    facts.races.extend(execution.races.first().map(|(place, says)| Fault {
        level: Level::Mosaic,
        says: says.clone(),
        evidence: witness.at_place(*place),
    }));
    // An unresolved DMA or wait may be the one that a semaphore seems to lack.
    if execution.unresolved > 0 {
        balance(facts, kernel, witness);
        return;
    }
    let Some(first) = kernel.dmas.first() else { return };
    let place = execution.faults.first().map_or(first.place, |(place, _)| *place);
    facts.balances.push(Balance {
        level: Level::Mosaic,
        checked: execution.semaphores,
        faults: execution.faults.iter().map(|(_, fault)| fault.clone()).collect(),
        conclusive: execution.unresolved_accesses == 0,
        evidence: witness.at_place(place),
    });
}

/// One fact per pair of buffers, from the text alone.
fn copies(facts: &mut Facts, kernel: &MosaicKernel, witness: &Witness<'_>) {
    let operands = Operands::of(kernel);
    let mut routes = BTreeMap::<(&str, &str), (Copy, Vec<&str>)>::new();
    for dma in kernel.dmas.iter().filter(|dma| !dma.waits) {
        let (Some(source), Some(target)) = (&dma.source, &dma.target) else { continue };
        let key = (source.root.as_str(), target.root.as_str());
        let (copy, slots) = routes.entry(key).or_insert_with(|| {
            (operands.copy(kernel, key.0, key.1, witness.at_place(dma.place)), Vec::new())
        });
        copy.starts += 1;
        slots.extend(target.index.first().map(String::as_str));
    }
    for (copy, mut slots) in routes.into_values() {
        slots.sort_unstable();
        slots.dedup();
        // Two different slot indices mean two buffers; a single computed index may be any slot.
        let computed = slots.iter().any(|slot| slot.starts_with('%'));
        let depth = (copy.inbound && (slots.len() > 1 || !computed)).then_some(slots.len());
        facts.copies.push(Copy { depth: depth.filter(|depth| *depth > 0), ..copy });
    }
}

/// DMA starts and waits on one semaphore in the text.
#[derive(Clone, Copy)]
struct Uses {
    starts: usize,
    waits: usize,
    place: Place,
}

/// A semaphore with DMAs and no wait, or waits and no DMA, is a fault; only an execution can tell the rest.
fn balance(facts: &mut Facts, kernel: &MosaicKernel, witness: &Witness<'_>) {
    // By array and last index, which identifies the operand; earlier ones select the buffer slot. A computed
    // index may be any.
    let mut semaphores = BTreeMap::<(&str, Option<u64>), Uses>::new();
    // A DMA to another device signals one semaphore here, and that of the other device, which runs the same
    // code.
    for dma in &kernel.dmas {
        for semaphore in [&dma.semaphore, &dma.source_semaphore].into_iter().flatten() {
            let index = semaphore.index.last().and_then(|index| index.parse().ok());
            let unused = Uses { starts: 0, waits: 0, place: dma.place };
            let uses = semaphores.entry((semaphore.root.as_str(), index)).or_insert(unused);
            if dma.waits {
                uses.waits += 1;
            } else {
                uses.starts += 1;
            }
        }
    }
    let Some(first) = kernel.dmas.first() else { return };
    let mut faults = Vec::new();
    let mut place = first.place;
    for ((root, index), uses) in &semaphores {
        // Semaphores of the same array that may be this one.
        let same = semaphores
            .iter()
            .filter(|((other, at), _)| other == root && (at == index || at.is_none() || index.is_none()));
        let (starts, waits) =
            same.fold((0, 0), |(starts, waits), (_, uses)| (starts + uses.starts, waits + uses.waits));
        let name = format!("{root}[.., {}]", index.map_or("*".to_owned(), |index| index.to_string()));
        match (starts, waits) {
            (_, 0) => faults.push(format!("DMAs signal {name}, but nothing waits on it")),
            (0, _) => faults.push(format!("{name} is waited on, but no DMA signals it")),
            _ => continue,
        }
        place = uses.place;
    }
    facts.balances.push(Balance {
        level: Level::Mosaic,
        checked: semaphores.len(),
        faults,
        conclusive: false,
        evidence: witness.at_place(place),
    });
}
