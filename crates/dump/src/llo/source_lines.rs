//! Cycles per source line: what an execution spent on the lines that the compiler's annotations name.
//!
//! ```text
//! %v163_v3 = vmax.f32 %v752_v0, %v755_v1 /* loc("kernel.py":10:24 to :56) */
//! ```
//!
//! A bundle's cycle belongs to the lines of its instructions, in equal parts per instruction. An empty bundle
//! waits for a latency, so its cycle belongs to the next bundle with instructions. Late passes emit vector
//! instructions without an annotation; those belong to the line of an operand or of a user. A matmul and the
//! pops of its result, which wait for it, belong to one line.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{Bundle, Cycles, Listing, Slot, UnitUse, touches_spill};

/// Begin of the names of instructions that multiply, and of those that take the result.
const MATMUL: &str = "vmatmul";
const POP: &str = "vpop";
/// Begin of an annotation.
const ANNOTATION: &str = "/* loc(\"";

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SourceLine {
    /// The file, as the compiler names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// What an execution spent on a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LineCost {
    /// Issue cycles, empty bundles included.
    pub cycles: f64,
    /// Of those, empty bundles before its instructions.
    pub latency: f64,
    /// Modelled cycles of waits for DMAs.
    pub waits: f64,
    /// Unit-cycles of the matrix units.
    pub mxu: u64,
    /// Stores to and loads from spill slots.
    pub spills: u64,
    /// Instructions issued.
    pub instructions: u64,
}

impl LineCost {
    /// Issue cycles and waits.
    pub fn total(&self) -> f64 {
        self.cycles + self.waits
    }

    /// Adds another cost.
    pub fn add(&mut self, other: &Self) {
        self.cycles += other.cycles;
        self.latency += other.latency;
        self.waits += other.waits;
        self.mxu = self.mxu.saturating_add(other.mxu);
        self.spills = self.spills.saturating_add(other.spills);
        self.instructions = self.instructions.saturating_add(other.instructions);
    }
}

/// The cost of one line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineProfile {
    /// The line.
    #[serde(flatten)]
    pub place: SourceLine,
    /// Its cost.
    #[serde(flatten)]
    pub cost: LineCost,
}

/// How often the bundles of a profile count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileBasis {
    /// As often as they run.
    Executed,
    /// As often as they run if branches that depend on data fall through: conditional regions run, and loops
    /// whose length depends on data run once.
    Assumed,
    /// Once each.
    Code,
}

/// The cost of every line of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceProfile {
    /// How often each bundle counts.
    pub basis: ProfileBasis,
    /// Lines by file and number.
    pub lines: Vec<LineProfile>,
    /// Code that belongs to no line: the grid loop, and the DMAs of block windows.
    pub elsewhere: LineCost,
}

impl SourceProfile {
    /// Attributes an execution of the listing. `None` if the listing has no annotations.
    pub fn new(listing: &Listing<'_>, cycles: &Cycles) -> Option<Self> {
        let times = |at: usize| cycles.executions.get(at).copied().unwrap_or_default();
        let stalled = |at: usize| cycles.stalls.get(&at).copied().unwrap_or_default();
        let basis = if cycles.assumed_branches == 0 { ProfileBasis::Executed } else { ProfileBasis::Assumed };
        Some(Self { basis, ..Self::attribute(listing, times, stalled)? })
    }

    /// Attributes the code itself, where it could not be executed: every bundle counts once.
    pub fn of_code(listing: &Listing<'_>) -> Option<Self> {
        Self::attribute(listing, |_| 1, |_| 0.0)
    }

    fn attribute(
        listing: &Listing<'_>,
        times: impl Fn(usize) -> u64,
        stalled: impl Fn(usize) -> f64,
    ) -> Option<Self> {
        memchr::memmem::find(listing.text().as_bytes(), ANNOTATION.as_bytes())?;
        let owners = Owners::of(listing);
        let mut costs: BTreeMap<usize, LineCost> = BTreeMap::new();
        let mut elsewhere = LineCost::default();
        let mut empty = 0.0;
        for (at, bundle) in listing.bundles().iter().enumerate() {
            let times = times(at);
            let slots = listing.slots(bundle);
            if slots.is_empty() {
                empty += times as f64;
                continue;
            }
            let latency = std::mem::take(&mut empty);
            let spent = Spent { times, latency, stalled: stalled(at) };
            for (owner, cost) in shares(listing, bundle, &owners, &spent) {
                match owner {
                    Some(line) => costs.entry(line).or_default().add(&cost),
                    None => elsewhere.add(&cost),
                }
            }
        }
        elsewhere.cycles += empty;
        elsewhere.latency += empty;
        let mut lines: Vec<_> = costs
            .into_iter()
            .filter_map(|(line, cost)| Some(LineProfile { place: owners.lines.get(line)?.clone(), cost }))
            .collect();
        lines.sort_by(|a, b| a.place.cmp(&b.place));
        Some(Self { basis: ProfileBasis::Code, lines, elsewhere })
    }

    /// Issue cycles and waits of all lines.
    pub fn total(&self) -> f64 {
        self.lines.iter().map(|line| line.cost.total()).sum::<f64>() + self.elsewhere.total()
    }
}

/// What one bundle cost.
struct Spent {
    times: u64,
    latency: f64,
    stalled: f64,
}

/// Divides the cost of a bundle among the lines of its instructions. Address computations and control flow
/// without a line do not take a part of the cycle, unless there is nothing else.
fn shares(
    listing: &Listing<'_>,
    bundle: &Bundle,
    owners: &Owners,
    spent: &Spent,
) -> Vec<(Option<usize>, LineCost)> {
    let slots = listing.slots(bundle);
    let owned: Vec<_> = slots.iter().map(|slot| (owners.of_slot(slot), slot)).collect();
    let located = owned.iter().filter(|(owner, _)| owner.is_some()).count();
    let parts = if located == 0 { owned.len() } else { located } as f64;
    let waits = |slot: &Slot| listing.op(slot).starts_with("dma.done.wait");
    let waiter = owned.iter().position(|(_, slot)| waits(slot)).unwrap_or(0);
    let cost = |(index, (owner, slot)): (usize, &(Option<usize>, &Slot))| {
        let takes_part = located == 0 || owner.is_some();
        let part = if takes_part { 1.0 / parts } else { 0.0 };
        let mut units = UnitUse::default();
        let args = slot.args.of(listing.text());
        units.count(listing.op(slot), args);
        let cost = LineCost {
            cycles: part * (spent.times as f64 + spent.latency),
            latency: part * spent.latency,
            waits: if index == waiter { spent.stalled } else { 0.0 },
            mxu: units.mxu.saturating_mul(spent.times),
            spills: u64::from(touches_spill(args)).saturating_mul(spent.times),
            instructions: spent.times,
        };
        (*owner, cost)
    };
    owned.iter().enumerate().map(cost).collect()
}

/// The line of each instruction.
struct Owners {
    lines: Vec<SourceLine>,
    /// By offset of the operation in the text.
    by_slot: HashMap<u32, usize>,
}

impl Owners {
    fn of(listing: &Listing<'_>) -> Self {
        let mut owners = Self { lines: Vec::new(), by_slot: HashMap::new() };
        owners.annotate(listing);
        owners.take_from_operands(listing);
        owners.take_from_users(listing);
        // A matmul may have its line by now, and what pops its result not yet.
        owners.take_from_operands(listing);
        owners
    }

    /// Reads the annotations.
    fn annotate(&mut self, listing: &Listing<'_>) {
        let mut numbers: HashMap<SourceLine, usize> = HashMap::new();
        for (_, slot) in listing.all_slots() {
            if let Some(line) = annotation(slot.args.of(listing.text())) {
                let number = *numbers.entry(line).or_insert_with_key(|line| {
                    self.lines.push(line.clone());
                    self.lines.len() - 1
                });
                self.by_slot.insert(slot.op.start, number);
            }
        }
    }

    /// Gives vector instructions without a line that of an operand, and pops that of their matmul.
    fn take_from_operands(&mut self, listing: &Listing<'_>) {
        // Lines of results, of spill slots and of the buffers of matrix units.
        let mut values: HashMap<&str, usize> = HashMap::new();
        for (_, slot) in listing.all_slots() {
            let (op, args) = (instruction(listing, slot), slot.args.of(listing.text()));
            let line = self.of_slot(slot).or_else(|| {
                let popped = result_buffer(op).filter(|_| op.starts_with(POP));
                let is_followed = is_vector(op) || touches_spill(args);
                names(args).chain(popped).filter(|_| is_followed).find_map(|name| values.get(name).copied())
            });
            let Some(line) = line else { continue };
            self.by_slot.insert(slot.op.start, line);
            if let Some(buffer) = result_buffer(op).filter(|_| op.starts_with(MATMUL)) {
                values.insert(buffer, line);
            }
            let result = listing.result(slot);
            if !result.is_empty() {
                values.insert(result, line);
            }
            if let Some(spilled) = names(args).find(|name| name.ends_with("_spill")) {
                values.insert(spilled, line);
            }
        }
    }

    /// Gives loads the line of what uses them, a matmul that of what pops its result, and pushes of its
    /// weights that of the matmul.
    fn take_from_users(&mut self, listing: &Listing<'_>) {
        let mut users: HashMap<String, usize> = HashMap::new();
        let slots: Vec<&Slot> = listing.all_slots().map(|(_, slot)| slot).collect();
        for slot in slots.into_iter().rev() {
            let (op, args) = (instruction(listing, slot), slot.args.of(listing.text()));
            let used = || {
                let result = listing.result(slot);
                let user = users.get(result).filter(|_| !result.is_empty());
                let pops = || first_pops(op).into_iter().find_map(|buffer| users.get(&buffer));
                let matmul = || users.get(unit(op)?).filter(|_| op.starts_with("vmat"));
                user.or_else(|| pops().filter(|_| op.starts_with(MATMUL))).or_else(matmul).copied()
            };
            // What a result is used for says nothing about the matmul that it is popped from.
            let is_followed = is_vector(op) && !op.starts_with(POP);
            let line = self.of_slot(slot).or_else(|| used().filter(|_| is_followed));
            let Some(line) = line else { continue };
            self.by_slot.insert(slot.op.start, line);
            users.extend(names(args).map(|name| (name.to_owned(), line)));
            let buffer = result_buffer(op).filter(|_| op.starts_with(POP));
            let unit = unit(op).filter(|_| op.starts_with(MATMUL));
            users.extend(buffer.into_iter().chain(unit).map(|name| (name.to_owned(), line)));
        }
    }

    fn of_slot(&self, slot: &Slot) -> Option<usize> {
        self.by_slot.get(&slot.op.start).copied()
    }
}

fn is_vector(op: &str) -> bool {
    op.starts_with('v') && !op.starts_with("vsync")
}

/// The whole name of an instruction, with the number of a buffer: `vpop.f32.mrb[254].mxu1`.
fn instruction<'t>(listing: &'t Listing<'_>, slot: &Slot) -> &'t str {
    let text = listing.text().get(slot.op.start as usize..).unwrap_or_default();
    text.split_whitespace().next().unwrap_or_default()
}

/// The matrix unit of an instruction: `mxu1`.
fn unit(op: &str) -> Option<&str> {
    op.get(op.rfind("mxu")?..)
}

/// Buffers of the rows that a matmul may leave, the first two in order: of packed rows only the second pop
/// may be annotated.
fn first_pops(op: &str) -> Vec<String> {
    let numbered = || {
        let (_, rest) = op.split_once("mrb[")?;
        let (number, rest) = rest.split_once(']')?;
        let number: u64 = number.parse().ok()?;
        Some([number, number.saturating_add(1)].map(|number| format!("mrb[{number}]{rest}")).to_vec())
    };
    numbered().or_else(|| Some(vec![unit(op)?.to_owned()])).unwrap_or_default()
}

/// Where a matrix unit leaves a result: `mrb[254].mxu1` in `vpop.f32.mrb[254].mxu1`. Units with a queue of
/// results have no number: `mxu0` in `vpop.f32.mrf.mxu0`.
fn result_buffer(op: &str) -> Option<&str> {
    let at = op.find("mrb[").or_else(|| op.rfind("mxu"))?;
    op.get(at..)
}

/// Registers, results and spill slots in the operands: `%v752_v0`, `166` in `vpop.xlane.xlu1 %166`,
/// `#allocation22_spill`.
fn names(args: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '#');
    args.split(move |c: char| !is_name(c)).filter(|word| word.starts_with(['%', '#']))
}

/// The location of an annotation, `loc("kernel.py":10:24 to :56)`.
fn annotation(args: &str) -> Option<SourceLine> {
    let (_, location) = args.split_once(ANNOTATION)?;
    let (file, rest) = location.split_once("\":")?;
    let line = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some(SourceLine { file: file.to_owned(), line })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llo::{SimOptions, simulate};

    const LISTING: &str = r#"
     0   :  { %s1_s0 = smov 0  ;;  %v1_v0 = vld [vmem:[#allocation2] sm:$0xff] /* loc("k.py":4:8 to :20) */ } /* Start region 0 */
   0x1   :  {}
   0x2   :  { %v2_v1 = vadd.f32 %v1_v0, %v1_v0 /* loc("k.py":5:8 to :9) */  ;;  %v3_v2 = vmul.f32 %v1_v0, %v1_v0 /* loc("k.py":6:8 to :9) */ }
   0x3   :  { %4 = vst [vmem:[#allocation9_spill] sm:$0xff] /*vst_source=*/%v2_v1 }
   0x4   :  { %s5_s1 = sadd.s32 1, %s1_s0 } /* End region 0 */
"#;

    #[test]
    fn every_cycle_belongs_to_one_line() {
        let listing = Listing::parse(LISTING);
        let cycles = simulate(&listing, &SimOptions::default()).unwrap();
        let profile = SourceProfile::new(&listing, &cycles).unwrap();
        let costs: Vec<_> = profile.lines.iter().map(|line| (line.place.line, line.cost.cycles)).collect();
        // Line 5 has half of the bundle it shares, half of the empty one before it, and its spill.
        assert_eq!(costs, [(4, 1.0), (5, 2.0), (6, 1.0)]);
        assert_eq!((profile.elsewhere.cycles, profile.total()), (1.0, 5.0));
        let spills: Vec<_> = profile.lines.iter().map(|line| line.cost.spills).collect();
        assert_eq!((spills, profile.basis), (vec![0, 1, 0], ProfileBasis::Executed));
    }

    /// Shortened from what libtpu writes for tpu7x.
    const MATMULS: &str = r#"
     0   :  { %1 = vmatmul.mubr.bf16.gmra.mrb[0].mxu0 %v1_v0 /* loc("k.py":7:8 to :20) */  ;;  %2 = vmatmul.mubr.bf16.gmra.mrb[4].mxu1 %v1_v0 /* loc("k.py":8:8 to :20) */ } /* Start region 0 */
   0x1   :  {}
   0x2   :  {}
   0x3   :  { %v3_v1 = vpop.f32.mrb[4].mxu1 }
   0x4   :  { %v4_v2 = vpop.f32.mrb[0].mxu0 }
   0x5   :  { %v5_v3 = vpop.f32.mrb[9].mxu0 } /* End region 0 */
"#;

    #[test]
    fn the_latency_of_a_matmul_belongs_to_its_line() {
        let profile = SourceProfile::of_code(&Listing::parse(MATMULS)).unwrap();
        let costs: Vec<_> = profile.lines.iter().map(|line| (line.place.line, line.cost.cycles)).collect();
        // The second matmul is popped first, after two empty bundles.
        assert_eq!(costs, [(7, 1.5), (8, 3.5)]);
        assert_eq!((profile.lines[1].cost.latency, profile.elsewhere.cycles), (2.0, 1.0));
    }

    /// Only the second pop is annotated, as with packed rows.
    const PACKED_ROWS: &str = r#"
     0   :  { %v1_v0 = vld [vmem:[%s1_s1] sm:$0xff] /* combined load */ } /* Start region 0 */
   0x1   :  { %2 = vmatpush3.bf16.msra.mxu0 %v1_v0 }
   0x2   :  { %3 = vmatmul.mubr.bf16.gmra.mrb[0].mxu0 %v1_v0 }
   0x3   :  {}
   0x4   :  { %v4_v1 = vpop.f32.mrb[0].mxu0 }
   0x5   :  { %v5_v2 = vpop.f32.mrb[1].mxu0 /* loc("k.py":7:8 to :20) */ }
   0x6   :  { %6 = vmax.xlane.f32.xlu0 %v4_v1 /* loc("k.py":8:8 to :20) */ } /* End region 0 */
"#;

    #[test]
    fn a_matmul_has_the_line_of_its_pops() {
        let profile = SourceProfile::of_code(&Listing::parse(PACKED_ROWS)).unwrap();
        let costs: Vec<_> = profile.lines.iter().map(|line| (line.place.line, line.cost.cycles)).collect();
        assert_eq!((costs, profile.elsewhere.cycles), (vec![(7, 6.0), (8, 1.0)], 0.0));
    }

    #[test]
    fn a_listing_without_annotations_has_no_profile() {
        let text = LISTING.replace("loc(", "at(");
        assert_eq!(SourceProfile::of_code(&Listing::parse(&text)), None);
    }
}
