//! Facts from an LLO listing, the code that runs.

use super::{
    Balance, Buffer, Copy, Evidence, Facts, Fault, FileKind, Level, Matmul, Operand, Role, Space, Spills,
    Witness,
    conflict::Fingerprint,
    role::{Array, Roles},
};
use crate::{
    hlo::Shape,
    limits::MAX_ASSUMED_CYCLES,
    llo::{
        Cycles, DmaRoute, Listing, RaceKind, SemaphoreLedger, SimError, SimOptions, Slot, SourceProfile,
        simulate, touches_spill,
    },
    source::Damage,
};

/// Reads a listing into the facts.
pub(super) fn read(
    facts: &mut Facts,
    name: &str,
    text: &str,
    options: &SimOptions,
) -> (FileKind, Vec<Damage>) {
    let listing = Listing::parse(text);
    let witness = Witness::new(name, text);
    let kind = kind(&listing);
    if kind == FileKind::LloPacked && listing.bundles().is_empty() {
        return (kind, listing.damage().to_vec());
    }
    buffers(facts, &listing, &witness);
    if listing.damage().is_empty() {
        facts.listing_lengths.push(listing.bundles().len());
    }
    let multiplies = listing.all_slots().any(|(_, slot)| listing.op(slot).starts_with("vmatmul"));
    // Listings with matmuls are read first; others are not the kernel.
    if kind == FileKind::LloUnscheduled || (facts.spills.is_some() && !multiplies) {
        return (kind, listing.damage().to_vec());
    }
    let operations = listing.all_slots().map(|(_, slot)| listing.op(slot));
    let fingerprint = Fingerprint::of_listing(name, kind, operations);
    let is_stage = facts.code.iter().any(|known| fingerprint.is_stage_of(known));
    if multiplies {
        facts.code.push(fingerprint);
    }
    // The same instructions after another pass.
    if is_stage {
        return (kind, listing.damage().to_vec());
    }
    let found = spills(&listing, &witness);
    if facts.spills.as_ref().is_none_or(|known| known.instructions < found.instructions) {
        facts.spills = Some(found);
    }
    matmuls(facts, &listing, &witness);
    operands(facts, &listing, &witness);
    if kind == FileKind::LloPacked {
        execute(facts, &listing, options, &witness);
    }
    (kind, listing.damage().to_vec())
}

/// Compiler pass of a listing.
pub(super) fn kind(listing: &Listing<'_>) -> FileKind {
    match listing.bundles() {
        // Listings before scheduling have an allocation table; without one this is a truncated scheduled
        // listing.
        [] if listing.allocations().is_empty() => FileKind::LloPacked,
        [] => FileKind::LloUnscheduled,
        _ if listing.is_timed() => FileKind::LloPacked,
        _ => FileKind::LloFinal,
    }
}

/// Executes a listing. Of several, the first one supplies cycles and copies, but all are checked.
fn execute(facts: &mut Facts, listing: &Listing<'_>, options: &SimOptions, witness: &Witness<'_>) {
    let cores = match on_every_core(listing, options) {
        Ok(cores) => cores,
        Err(error) => {
            facts.unfollowed.push(Fault {
                level: Level::Llo,
                says: format!("the listing could not be executed: {error}"),
                evidence: witness.at(0),
            });
            if let SimError::UndefinedPredicate { bundle, .. } = &error {
                let start = listing.bundles().get(*bundle).map_or(0, |bundle| bundle.span.start);
                facts.balances.push(Balance {
                    level: Level::Llo,
                    checked: 0,
                    faults: vec![error.to_string()],
                    conclusive: false,
                    evidence: witness.at(start),
                });
            }
            facts.cycles_error.get_or_insert_with(|| error.to_string());
            if facts.source_profile.is_none() {
                facts.source_profile = assumed_profile(listing, options, &error);
            }
            return;
        }
    };
    facts.balances.push(balance(listing, &cores, witness));
    let routes = || cores.iter().flat_map(|core| &core.routes);
    facts.races.extend(routes().filter_map(|route| race(route, witness)).take(1));
    if facts.cycles.is_some() {
        return;
    }
    facts.cores = Some(cores.len());
    // The kernel takes as long as its slowest core.
    if let Some(cycles) = cores.into_iter().rev().max_by(|a, b| a.total().total_cmp(&b.total())) {
        executed(facts, listing, &cycles, witness);
        facts.source_profile = SourceProfile::new(listing, &cycles);
        facts.cycles = Some(cycles);
    }
}

/// Describes a data race with a DMA.
fn race(route: &DmaRoute, witness: &Witness<'_>) -> Option<Fault> {
    let race = route.race?;
    let DmaRoute { kind, first, source, destination, .. } = route;
    let bundle = race.bundle;
    let says = match race.kind {
        RaceKind::ReadsDestination => format!(
            "bundle {bundle:#x} reads {destination} while a {kind} of bundle {first:#x} is still writing it"
        ),
        RaceKind::WritesDestination => format!(
            "bundle {bundle:#x} writes {destination} while a {kind} of bundle {first:#x} is writing it"
        ),
        RaceKind::WritesSource => format!(
            "bundle {bundle:#x} overwrites {source} while a {kind} of bundle {first:#x} is still reading it"
        ),
    };
    Some(Fault { level: Level::Llo, says, evidence: witness.at(race.offset) })
}

/// The source profile of a listing that could not be executed: with branches on data falling through, or of
/// the code itself.
fn assumed_profile(listing: &Listing<'_>, options: &SimOptions, error: &SimError) -> Option<SourceProfile> {
    let options = SimOptions {
        unknown_branches_fall_through: true,
        max_cycles: options.max_cycles.min(MAX_ASSUMED_CYCLES),
        ..*options
    };
    let depends_on_data = matches!(error, SimError::UnknownBranch { .. } | SimError::SpilledBranch { .. });
    let assumed = depends_on_data.then(|| simulate(listing, &options));
    match assumed {
        Some(Ok(cycles)) => SourceProfile::new(listing, &cycles),
        _ => SourceProfile::of_code(listing),
    }
}

/// Executes the listing once per core: v5p has two that run the same code.
fn on_every_core(listing: &Listing<'_>, options: &SimOptions) -> Result<Vec<Cycles>, SimError> {
    let cores = if listing.asks_for_core() { 2 } else { 1 };
    (0..cores).map(|core| simulate(listing, &SimOptions { core, ..*options })).collect()
}

/// Operand types of the matrix units of any chip.
const MATRIX_TYPES: [&str; 10] =
    ["f8e4m3fn", "f8e5m2", "f8e4m3b11", "bf16", "f32", "f16", "s8", "u8", "s4", "u4"];

/// One fact per operand type: `vmatmul.mubr.f8e4m3fn.gmra.mrb[0].mxu0 %v1`.
fn matmuls(facts: &mut Facts, listing: &Listing<'_>, witness: &Witness<'_>) {
    let mut found: Vec<Matmul> = Vec::new();
    for (_, slot) in listing.all_slots().filter(|(_, slot)| listing.op(slot).starts_with("vmatmul")) {
        let op = listing.op(slot);
        let element = op.split('.').find(|part| MATRIX_TYPES.contains(part)).unwrap_or_default();
        match found.iter_mut().find(|matmul| matmul.lhs == element) {
            Some(matmul) => matmul.count += 1,
            None => found.push(Matmul {
                level: Level::Llo,
                lhs: element.to_owned(),
                rhs: element.to_owned(),
                shapes: None,
                emulated: element == "f8e4m3b11",
                count: 1,
                evidence: witness.at(slot.op.start),
            }),
        }
    }
    facts.matmuls.extend(found);
}

/// `%s1_s0 = inlined_call_operand.hbm [shape: f8e4m3fn[512,512], index: 0, kind: input, shape index: {}]`
fn operands(facts: &mut Facts, listing: &Listing<'_>, witness: &Witness<'_>) {
    let slots = listing.all_slots().map(|(_, slot)| slot);
    let found: Vec<_> = slots.filter_map(|slot| operand(listing, slot, witness)).collect();
    let arrays = found.iter().filter(|operand| !operand.output).map(|operand| Array {
        name: "",
        element: &operand.element,
        dims: &operand.dims,
    });
    let roles = Roles::of(arrays);
    for mut operand in found {
        if !operand.output {
            operand.role = roles.role(Array { name: "", element: &operand.element, dims: &operand.dims });
        }
        let same = |known: &Operand| {
            Operand { evidence: operand.evidence.clone(), name: operand.name.clone(), ..known.clone() }
                == operand
        };
        if !facts.operands.iter().any(same) {
            facts.operands.push(operand);
        }
    }
}

fn operand(listing: &Listing<'_>, slot: &Slot, witness: &Witness<'_>) -> Option<Operand> {
    let space = listing.op(slot).strip_prefix("inlined_call_operand.")?;
    let args = slot.args.of(listing.text());
    let (shape, rest) = args.split_once("shape: ")?.1.split_once(", index: ")?;
    let shape = Shape::parse(shape)?;
    Some(Operand {
        level: Level::Llo,
        index: rest.split(',').next()?.trim().parse().ok()?,
        name: listing.result(slot).to_owned(),
        output: rest.contains("kind: output"),
        element: shape.element().to_owned(),
        dims: shape.dims()?.to_vec(),
        space: Space::named(space),
        role: Role::Data,
        evidence: witness.at(slot.op.start),
    })
}

fn is_spill(listing: &Listing<'_>, slot: &Slot) -> bool {
    matches!(listing.op(slot), "vst" | "vld") && touches_spill(slot.args.of(listing.text()))
}

fn spills(listing: &Listing<'_>, witness: &Witness<'_>) -> Spills {
    let mut found =
        listing.all_slots().map(|(_, slot)| slot).filter(|slot| is_spill(listing, slot)).peekable();
    let listing_start = || listing.bundles().first().map_or(0, |bundle| bundle.span.start);
    let first = found.peek().map_or_else(listing_start, |slot| slot.op.start);
    Spills { instructions: found.count(), executed: None, evidence: witness.at(first) }
}

/// The spill that is executed most often.
fn worst_spill<'l>(listing: &'l Listing<'_>, cycles: &Cycles) -> Option<&'l Slot> {
    let executed = listing.bundles().iter().zip(&cycles.executions);
    let spills = executed.flat_map(|(bundle, times)| {
        let slots = listing.slots(bundle).iter().filter(|slot| is_spill(listing, slot));
        slots.map(move |slot| (*times, slot))
    });
    // The first of equals.
    spills.rev().max_by_key(|(times, _)| *times).map(|(_, slot)| slot)
}

/// Facts from the execution of the listing.
fn executed(facts: &mut Facts, listing: &Listing<'_>, cycles: &Cycles, witness: &Witness<'_>) {
    if let Some(spills) = &mut facts.spills {
        spills.executed = Some(cycles.units.spill + cycles.units.fill);
        if let Some(slot) = worst_spill(listing, cycles) {
            spills.evidence = witness.at(slot.op.start);
        }
    }
    let copies: Vec<_> = cycles.routes.iter().map(|route| copy(facts, route, listing, witness)).collect();
    facts.copies.extend(copies);
}

/// Whether DMAs and waits match on every core.
fn balance(listing: &Listing<'_>, cores: &[Cycles], witness: &Witness<'_>) -> Balance {
    let unbalanced: Vec<_> =
        cores.iter().flat_map(|core| &core.semaphores).filter(|semaphore| !semaphore.is_balanced()).collect();
    let blamed = unbalanced.iter().find_map(|semaphore| semaphore.starved_at.or(semaphore.unawaited_at));
    let bundle = |address: u32| listing.bundles().iter().find(|bundle| bundle.address == address);
    let blamed = blamed.and_then(bundle).map(|bundle| bundle.span);
    let wait = || listing.all_slots().find(|(_, slot)| listing.op(slot).starts_with("dma.done"));
    let span = blamed.or_else(|| wait().map(|(_, slot)| slot.op)).unwrap_or_default();
    // An unresolved DMA or wait may be the one that a semaphore seems to lack.
    let followed = cores.iter().all(|core| core.unresolved_dma == 0);
    let conclusive = followed && cores.iter().all(|core| core.unresolved_accesses == 0);
    let faults = if followed { unbalanced.into_iter().map(fault).collect() } else { Vec::new() };
    let checked = cores.iter().map(|core| core.semaphores.len()).max().unwrap_or_default();
    Balance { level: Level::Llo, checked, faults, conclusive, evidence: witness.at(span.start) }
}

/// Describes the imbalance of a semaphore.
fn fault(semaphore: &SemaphoreLedger) -> String {
    let SemaphoreLedger { semaphore: name, left, .. } = semaphore;
    // Without a DMA it is a regular semaphore.
    let (unit, kind) = if semaphore.starts == 0 { ("signal", "signal") } else { ("granule", "DMA") };
    let amount = left.unsigned_abs();
    let units = if amount == 1 { format!("1 {unit}") } else { format!("{amount} {unit}s") };
    match (semaphore.starved_at, semaphore.unawaited_at) {
        (Some(bundle), _) => format!("bundle {bundle:#x} waits on {name} for a DMA that was never started"),
        (None, Some(bundle)) => format!("bundle {bundle:#x} decrements {name} without a wait"),
        (None, None) if *left < 0 => {
            let came = if semaphore.starts == 0 { "signalled" } else { "copied" };
            format!("{name} ends {units} below zero: more was subtracted than {came}")
        }
        (None, None) => format!("{name} holds {units} at the end: a {kind} was never waited for"),
    }
}

/// Evidence for the first DMA of a route.
fn dma_evidence(listing: &Listing<'_>, route: &DmaRoute, witness: &Witness<'_>) -> Evidence {
    let bundle = listing.bundles().iter().find(|bundle| bundle.address == route.first);
    let slots = bundle.map(|bundle| listing.slots(bundle)).unwrap_or_default();
    let slot = slots.iter().find(|slot| listing.op(slot) == route.kind);
    witness.at(slot.map_or(0, |slot| slot.op.start))
}

fn copy(facts: &Facts, route: &DmaRoute, listing: &Listing<'_>, witness: &Witness<'_>) -> Copy {
    let early = route.race.filter(|race| race.kind == RaceKind::ReadsDestination);
    let at = |name: &str| {
        facts.operands.iter().find(|operand| operand.level == Level::Llo && operand.name == name)
    };
    let (source, destination) = (at(&route.source), at(&route.destination));
    let operand = source.or(destination);
    Copy {
        level: Level::Llo,
        from: Space::named(&route.from),
        to: Space::named(&route.to),
        operand: operand.map(|operand| operand.index),
        role: operand.map(|operand| operand.role),
        inbound: source.is_some(),
        starts: route.starts,
        bytes: Some(route.bytes),
        depth: Some(route.depth),
        overlaps_multiply: Some(route.overlaps_multiply),
        read_too_early: early.map(|race| witness.at(race.offset)),
        evidence: dma_evidence(listing, route, witness),
    }
}

/// The allocation table, without compiler-reserved entries.
fn buffers(facts: &mut Facts, listing: &Listing<'_>, witness: &Witness<'_>) {
    let shapes: Vec<_> = listing.allocations().iter().map(|a| Shape::parse(&a.shape)).collect();
    let arrays = shapes
        .iter()
        .flatten()
        .filter_map(|shape| Some(Array { name: "", element: shape.element(), dims: shape.dims()? }));
    let roles = Roles::of(arrays);
    for (allocation, shape) in listing.allocations().iter().zip(&shapes) {
        let Some((shape, dims)) = shape.as_ref().and_then(|shape| Some((shape, shape.dims()?))) else {
            continue;
        };
        facts.buffers.push(Buffer {
            level: Level::Llo,
            name: allocation.name.clone(),
            element: shape.element().to_owned(),
            dims: dims.to_vec(),
            space: Space::named(&allocation.space),
            bytes: Some(allocation.size),
            role: roles.role(Array { name: "", element: shape.element(), dims }),
            copied_to: false,
            evidence: witness.at_place(allocation.place),
        });
    }
}
