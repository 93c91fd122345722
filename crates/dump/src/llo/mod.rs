//! LLO: the VLIW bundles that the TPU compiler schedules, one per cycle.
//!
//! ```text
//!  0x14 LB: > { %s5_s1 = sadd.s32 1, %s4_s0  ;;  %9 = dma.done.wait %s3_s2, 512 } /* Start region 7 */
//! ```

mod args;
mod cycles;
mod dma;
mod extent;
mod instruction;
mod machine;
mod program;
mod scan;
mod source_lines;
mod units;

pub use crate::flight::RaceKind;
pub use args::{Args, Operand, Predicate};
pub use cycles::{
    Cycles, DmaModel, DmaRace, DmaRoute, DmaTraffic, LoopCount, SemaphoreLedger, SimError, SimOptions,
    simulate, static_use,
};
pub use source_lines::{LineCost, LineProfile, ProfileBasis, SourceLine, SourceProfile};
pub use units::{UnitUse, touches_spill};

use serde::Serialize;

use crate::source::{Damage, LineIndex, Place, Span};

/// Kind of branch target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Label {
    /// `LH`: loop header.
    LoopHeader,
    /// `LB`: loop body.
    LoopBody,
    /// `LE`: loop exit.
    LoopExit,
    /// `PB`: body of a predicated region.
    PredicatedBody,
    /// `PF`: where a predicated region falls through to.
    PredicatedFallthrough,
    /// `CT`: any other target.
    ControlTarget,
}

/// One instruction of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The result, for example `%s5_s1`, or empty.
    pub result: Span,
    /// The operation, for example `sadd.s32`.
    pub op: Span,
    /// Everything after the operation, comments included.
    pub args: Span,
}

/// The instructions of one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Its number, as printed.
    pub address: u32,
    /// Why it can be jumped to.
    pub label: Option<Label>,
    /// Loop depth, as printed.
    pub depth: u16,
    /// From its number to its closing brace.
    pub span: Span,
    /// What follows the closing brace, usually a comment that names regions.
    pub trailer: Span,
    slots: (u32, u32),
}

/// An entry of the allocation table, which listings before scheduling have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Allocation {
    /// For example `#allocation2`.
    pub name: String,
    /// For example `f8e4m3fn[2,128,128]{2,1,0:T(32,128)(4,1)}`.
    pub shape: String,
    /// For example `vmem`.
    pub space: String,
    /// Bytes.
    pub size: u64,
    /// The compiler's tag.
    pub tag: String,
    /// Where it is declared.
    pub place: Place,
}

/// A region boundary that a bundle's trailer names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionMark {
    /// The number of the region.
    pub region: u32,
    /// Whether it begins with this bundle.
    pub starts: bool,
    /// Whether it ends with this bundle.
    pub ends: bool,
}

/// A parsed listing. It borrows the text and holds spans into it.
#[derive(Clone, Debug)]
pub struct Listing<'a> {
    text: &'a str,
    lines: LineIndex,
    bundles: Vec<Bundle>,
    slots: Vec<Slot>,
    allocations: Vec<Allocation>,
    damage: Vec<Damage>,
}

impl<'a> Listing<'a> {
    /// Reads a listing. Never fails: what cannot be read is in [`Listing::damage`].
    pub fn parse(text: &'a str) -> Self {
        scan::scan(text)
    }

    /// The text it was read from.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The bundles in the order in which they are printed.
    pub fn bundles(&self) -> &[Bundle] {
        &self.bundles
    }

    /// The instructions of one bundle.
    pub fn slots(&self, bundle: &Bundle) -> &[Slot] {
        let (start, end) = bundle.slots;
        self.slots.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Every instruction with its bundle.
    pub fn all_slots(&self) -> impl Iterator<Item = (&Bundle, &Slot)> {
        let bundles = self.bundles.iter();
        bundles.flat_map(|bundle| self.slots(bundle).iter().map(move |slot| (bundle, slot)))
    }

    /// The allocation table, where the listing has one.
    pub fn allocations(&self) -> &[Allocation] {
        &self.allocations
    }

    /// What could not be read.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The result of an instruction, for example `%s5_s1`.
    pub fn result(&self, slot: &Slot) -> &'a str {
        slot.result.of(self.text)
    }

    /// The operation of an instruction, for example `dma.hbm_to_vmem`.
    pub fn op(&self, slot: &Slot) -> &'a str {
        slot.op.of(self.text)
    }

    /// The operands of an instruction.
    pub fn args(&self, slot: &Slot) -> Args<'a> {
        Args::parse(slot.args.of(self.text))
    }

    /// Whether every cycle has a bundle. The final pass drops empty ones, marks the entry, and names branch
    /// targets by region only.
    pub fn is_timed(&self) -> bool {
        let has = |mark: &[u8]| memchr::memmem::find(self.text.as_bytes(), mark).is_some();
        !self.bundles.is_empty() && !has(b"/* entry bundle:") && !has(b" target = $region")
    }

    /// Whether the code reads its core index, so that several cores share the kernel.
    pub fn asks_for_core(&self) -> bool {
        memchr::memmem::find(self.text.as_bytes(), program::CORE_ID.as_bytes()).is_some()
    }

    /// Line and column of a span.
    pub fn place(&self, span: Span) -> Place {
        self.lines.place(span.start)
    }

    /// The regions that begin or end with a bundle.
    pub fn regions(&self, bundle: &Bundle) -> impl Iterator<Item = RegionMark> + use<'a> {
        scan::region_marks(bundle.trailer.of(self.text))
    }
}
