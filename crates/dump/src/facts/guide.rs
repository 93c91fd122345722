//! Facts from the notation of the guides: `async-copy-start`, `memory_space=N`, `scratch`.

use std::collections::BTreeMap;

use super::{
    Balance, Buffer, Copy, Facts, FileKind, Level, Operand, Role, Space, Witness, hlo,
    role::{Array, Roles},
};
use crate::{
    hlo::{Instruction, Module, Shape},
    source::Damage,
};

/// Whether a program uses this notation, which real HLO never does.
pub(super) fn is_guide(module: &Module<'_>) -> bool {
    module.instructions().any(|instruction| {
        let opcode = module.str(instruction.opcode);
        matches!(opcode, "async-copy-start" | "async-copy-done" | "scratch")
            || module.attribute(instruction, "memory_space").is_some()
    })
}

/// Reads such a file into the facts.
pub(super) fn read(facts: &mut Facts, name: &str, module: &Module<'_>) -> (FileKind, Vec<Damage>) {
    let reader = Reader { module, witness: Witness::new(name, module.text()), roles: roles(module) };
    for instruction in module.instructions() {
        match module.str(instruction.opcode) {
            "parameter" => facts.operands.extend(reader.parameter(instruction)),
            "scratch" => facts.buffers.extend(reader.scratch(instruction)),
            "async-copy-start" => facts.copies.push(reader.start(instruction)),
            "dot" | "convolution" => {
                facts.matmuls.extend(hlo::matmul(module, instruction, Level::Guide, &reader.witness));
            }
            _ => {}
        }
    }
    facts.balances.extend(reader.balance());
    (FileKind::Guide, module.damage().to_vec())
}

struct Reader<'m, 'a> {
    module: &'m Module<'a>,
    witness: Witness<'m>,
    roles: Roles,
}

fn roles(module: &Module<'_>) -> Roles {
    let shapes: Vec<_> = module.instructions().filter_map(|i| module.shape(i)).collect();
    Roles::of(
        shapes
            .iter()
            .filter_map(|shape| Some(Array { name: "", element: shape.element(), dims: shape.dims()? })),
    )
}

impl Reader<'_, '_> {
    /// `memory_space=N`, else the `S(n)` of the layout.
    fn space(&self, instruction: &Instruction) -> Space {
        let stated =
            self.module.attribute(instruction, "memory_space").and_then(|number| number.parse().ok());
        let layout =
            || self.module.shape(instruction).map(|shape| shape.memory_space()).filter(|&space| space > 0);
        stated.or_else(layout).map_or(Space::Unstated, Space::numbered)
    }

    fn role(&self, instruction: &Instruction, shape: &Shape) -> Role {
        let (name, dims) = (self.module.name(instruction), shape.dims().unwrap_or_default());
        self.roles.role(Array { name, element: shape.element(), dims })
    }

    fn parameter(&self, instruction: &Instruction) -> Option<Operand> {
        let shape = self.module.shape(instruction)?;
        let index = instruction.operands.as_ref()?.first()?;
        Some(Operand {
            level: Level::Guide,
            index: self.module.str(*index).parse().ok()?,
            name: self.module.name(instruction).to_owned(),
            output: false,
            element: shape.element().to_owned(),
            dims: shape.dims().unwrap_or_default().to_vec(),
            space: self.space(instruction),
            role: self.role(instruction, &shape),
            evidence: self.witness.at(instruction.span.start),
        })
    }

    fn scratch(&self, instruction: &Instruction) -> Option<Buffer> {
        let shape = self.module.shape(instruction)?;
        Some(Buffer {
            level: Level::Guide,
            name: self.module.name(instruction).to_owned(),
            element: shape.element().to_owned(),
            dims: shape.dims().unwrap_or_default().to_vec(),
            space: self.space(instruction),
            bytes: shape.bytes(),
            role: self.role(instruction, &shape),
            copied_to: true,
            evidence: self.witness.at(instruction.span.start),
        })
    }

    /// The source is the first operand; the destination is named by a second one or by `memory_space`.
    fn start(&self, instruction: &Instruction) -> Copy {
        let operand = |index: usize| {
            let operand = *instruction.operands.as_ref()?.get(index)?;
            self.module.named(self.module.operand_name(operand))
        };
        let (source, destination) = (operand(0), operand(1));
        let space = |end: Option<&Instruction>| end.map_or(Space::Unstated, |end| self.space(end));
        let to = match self.space(instruction) {
            Space::Unstated => space(destination),
            stated => stated,
        };
        let moved = source.and_then(|source| Some((source, self.module.shape(source)?)));
        Copy {
            level: Level::Guide,
            from: space(source),
            to,
            operand: None,
            role: moved.map(|(source, shape)| self.role(source, &shape)),
            inbound: true,
            starts: 1,
            bytes: None,
            depth: None,
            overlaps_multiply: None,
            read_too_early: None,
            evidence: self.witness.at(instruction.span.start),
        }
    }

    /// Matches every start with one done.
    fn balance(&self) -> Option<Balance> {
        let with = |opcode: &'static str| {
            self.module.instructions().filter(move |i| self.module.str(i.opcode) == opcode)
        };
        let first = with("async-copy-start").chain(with("async-copy-done")).next()?;
        let mut awaited: BTreeMap<_, usize> =
            with("async-copy-start").map(|start| (self.module.name(start), 0)).collect();
        let mut faults = Vec::new();
        for done in with("async-copy-done") {
            let operands = done.operands.as_deref().unwrap_or_default().iter();
            let mut found = false;
            for operand in operands {
                if let Some(times) = awaited.get_mut(self.module.operand_name(*operand)) {
                    *times += 1;
                    found = true;
                }
            }
            if !found {
                faults.push(format!("%{} waits for a copy that is not in the file", self.module.name(done)));
            }
        }
        let unmatched = awaited.iter().filter(|(_, times)| **times != 1);
        faults.extend(unmatched.map(|(start, times)| format!("%{start} is awaited {times} times")));
        Some(Balance {
            level: Level::Guide,
            checked: awaited.len(),
            faults,
            conclusive: true,
            evidence: self.witness.at(first.span.start),
        })
    }
}
