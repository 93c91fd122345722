//! The parts of a compiled kernel, and of hand-written files.

use super::part::{Aspect, Part, Subject, Value, dims, operand_names};
use crate::{
    facts::{Copy, Facts, Level, Matmul, Operand, Origin, Role, Witness, role::Array},
    llo::Listing,
};

/// Parts from the facts, except those of the Mosaic text.
pub(super) fn parts(facts: &Facts) -> Vec<Part> {
    let mut parts = Vec::new();
    for level in [Level::Guide, Level::Hlo, Level::Llo, Level::Ptx, Level::Sass] {
        let operands: Vec<_> = facts.operands.iter().filter(|operand| operand.level == level).collect();
        let names = names(&operands);
        parts.extend(operands.iter().zip(&names).map(|(operand, name)| placement(operand, name)));
        parts.extend(facts.matmuls.iter().filter(|matmul| matmul.level == level).map(products));
        let copies = facts.copies.iter().filter(|copy| copy.level == level);
        parts.extend(copies.map(|copy| copied(facts, copy, &operands, &names)));
    }
    parts.extend(guide_buffers(facts));
    parts.extend(code(facts));
    parts
}

/// The loops that were executed.
pub(super) fn loops(facts: &Facts, listing: &Listing<'_>, witness: &Witness<'_>) -> Vec<Part> {
    let loops = facts.cycles.iter().flat_map(|cycles| &cycles.loops);
    let part = |found: &crate::llo::LoopCount| {
        let bundle = listing.bundles().iter().find(|bundle| bundle.address == found.first);
        let evidence = witness.at(bundle.map_or(0, |bundle| bundle.span.start));
        let role = format!("the loop at depth {}", found.depth);
        Part::new(Level::Llo, Subject::Loop, role, evidence)
            .with(Aspect::Trips, found.iterations)
            .with(Aspect::Bundles, u64::from(found.last.saturating_sub(found.first)) + 1)
    };
    loops.map(part).collect()
}

fn names(operands: &[&Operand]) -> Vec<String> {
    operand_names(operands.iter().map(|operand| {
        let Operand { element, dims, .. } = operand;
        (Array { name: &operand.name, element, dims }, operand.output)
    }))
}

fn placement(operand: &Operand, name: &str) -> Part {
    Part::new(operand.level, Subject::Operand, name, operand.evidence.clone())
        .with(Aspect::Space, operand.space.to_string())
        .with(Aspect::Element, operand.element.clone())
        .with(Aspect::Shape, dims(&operand.dims))
}

fn products(matmul: &Matmul) -> Part {
    let role = match matmul.level {
        Level::Hlo => "matmuls outside the kernel",
        Level::Guide | Level::Mosaic => "the kernel's products",
        Level::Llo | Level::Ptx | Level::Sass => "matrix instructions",
    };
    let shapes = matmul.shapes.as_ref().map(|[lhs, rhs]| format!("{} by {}", dims(lhs), dims(rhs)));
    Part::new(matmul.level, Subject::Products, role, matmul.evidence.clone())
        .with(Aspect::Element, format!("{} by {}", matmul.lhs, matmul.rhs))
        .with_known(Aspect::Shape, shapes)
        .with(Aspect::Count, matmul.count)
}

fn copied(facts: &Facts, copy: &Copy, operands: &[&Operand], names: &[String]) -> Part {
    let at = operands.iter().position(|operand| Some(operand.index) == copy.operand);
    let what = match (at.and_then(|at| names.get(at)), copy.level, copy.role) {
        (Some(name), ..) => name.as_str(),
        (None, Level::Hlo, _) => "arrays before the kernel starts",
        (None, _, _) if !copy.inbound => "the result",
        (None, _, Some(Role::Data)) => "data",
        (None, _, Some(Role::Scale)) => "scales",
        (None, _, None) => "what is no operand",
    };
    // Without an execution, occurrences in the text are counted.
    let times = if copy.level == Level::Llo { Aspect::Executed } else { Aspect::Count };
    Part::new(copy.level, Subject::Copies, format!("copies of {what}"), copy.evidence.clone())
        .with_known(Aspect::Engine, engine(facts, copy))
        .with(Aspect::Route, format!("{} -> {}", copy.from, copy.to))
        .with(times, copy.starts)
        .with_known(Aspect::Bytes, copy.bytes)
        // Each output location is written once.
        .with_known(Aspect::Places, copy.depth.filter(|_| copy.inbound))
        .with_known(Aspect::Overlaps, copy.overlaps_multiply.map(Value::Flag))
}

/// The instruction that starts it, from its line.
fn engine(facts: &Facts, copy: &Copy) -> Option<String> {
    let routes = facts.cycles.iter().flat_map(|cycles| &cycles.routes);
    // `dma.hbm_to_vmem` only repeats the route.
    let kind = |kind: &str| if kind.contains("_to_") { "dma".to_owned() } else { kind.to_owned() };
    match copy.level {
        Level::Llo => {
            let mut same =
                routes.filter(|route| Some(route.bytes) == copy.bytes && route.starts == copy.starts);
            same.next().map(|route| kind(&route.kind))
        }
        Level::Hlo => Some("copy-start".to_owned()),
        Level::Guide => Some("async-copy-start".to_owned()),
        // `UTMALDG.2D [UR8], [UR4]`: the first word that looks like an operation.
        Level::Ptx | Level::Sass => {
            let mut words = copy.evidence.excerpt.split_whitespace();
            let operation = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic());
            words.find(operation).map(|word| word.trim_end_matches(';').to_owned())
        }
        Level::Mosaic => None,
    }
}

/// Buffers of hand-written files only: listings renumber theirs each time.
fn guide_buffers(facts: &Facts) -> Vec<Part> {
    let buffers = facts.buffers.iter().filter(|buffer| buffer.level == Level::Guide);
    let part = |buffer: &crate::facts::Buffer| {
        let role = match buffer.role {
            Role::Data => "a buffer of data",
            Role::Scale => "a buffer of scales",
        };
        Part::new(Level::Guide, Subject::Buffer, role, buffer.evidence.clone())
            .with(Aspect::Space, buffer.space.to_string())
            .with(Aspect::Element, buffer.element.clone())
            .with(Aspect::Shape, dims(&buffer.dims))
            .with_known(Aspect::Bytes, buffer.bytes)
    };
    buffers.map(part).collect()
}

fn code(facts: &Facts) -> Vec<Part> {
    let listing = facts.spills.as_ref().map(|spills| {
        let level = if facts.assembler.is_some() { Level::Sass } else { Level::Llo };
        Part::new(level, Subject::Code, "the code", spills.evidence.clone())
            .with_known(Aspect::Bundles, facts.cycles.as_ref().map(|cycles| cycles.code_bundles))
            .with(Aspect::Spills, spills.instructions)
            .with_known(
                Aspect::Registers,
                facts.assembler.as_ref().map(|assembled| assembled.report.registers),
            )
    });
    let memories = [("vector memory", &facts.vmem), ("scalar memory", &facts.smem)];
    let memories = memories.into_iter().filter_map(|(name, memory)| {
        let memory = memory.as_ref()?;
        let stage = match memory.origin {
            Origin::Stated => Level::Hlo,
            Origin::Listed => Level::Llo,
            Origin::Declared => Level::Mosaic,
        };
        let part = Part::new(stage, Subject::Code, format!("{name} of the kernel"), memory.evidence.clone());
        Some(part.with(Aspect::Bytes, memory.used))
    });
    listing.into_iter().chain(memories).collect()
}
