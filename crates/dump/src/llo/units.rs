//! Functional units that an operation occupies, and for how long.

use serde::Serialize;

/// Unit-cycles per functional unit, in the columns of the compiler's utilization tables: two matrix units busy for three
/// cycles count six.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnitUse {
    /// Matrix units multiplying.
    pub mxu: u64,
    /// Cross-lane units.
    pub xlu: u64,
    /// Vector arithmetic.
    pub valu: u64,
    /// Pops of matrix and cross-lane results.
    pub vpop: u64,
    /// Transcendental unit.
    pub eup: u64,
    /// Vector loads, and the waits that share their slots.
    pub vload: u64,
    /// Of those, reloads of spilled registers.
    pub fill: u64,
    /// Vector stores.
    pub vstore: u64,
    /// Of those, spills of registers.
    pub spill: u64,
    /// Scalar arithmetic, control flow and DMA starts.
    pub salu: u64,
}

impl UnitUse {
    /// Column names in the order of the compiler's tables.
    pub const COLUMNS: [&'static str; 10] =
        ["MXU", "XLU", "VALU", "VPOP", "EUP", "VLOAD", "VLOAD:FILL", "VSTORE", "VSTORE:SPILL", "SALU"];

    /// The columns in the order of the compiler's tables.
    pub fn columns(&self) -> [u64; 10] {
        [
            self.mxu,
            self.xlu,
            self.valu,
            self.vpop,
            self.eup,
            self.vload,
            self.fill,
            self.vstore,
            self.spill,
            self.salu,
        ]
    }

    /// From columns in that order.
    pub fn from_columns(columns: [u64; 10]) -> Self {
        let [mxu, xlu, valu, vpop, eup, vload, fill, vstore, spill, salu] = columns;
        Self { mxu, xlu, valu, vpop, eup, vload, fill, vstore, spill, salu }
    }

    /// Adds `times` times `other`.
    pub fn add_scaled(&mut self, other: &Self, times: u64) {
        let mut sum = self.columns();
        for (mine, theirs) in sum.iter_mut().zip(other.columns()) {
            *mine = mine.saturating_add(theirs.saturating_mul(times));
        }
        *self = Self::from_columns(sum);
    }

    /// Counts one instruction.
    pub fn count(&mut self, op: &str, args: &str) {
        match unit(op) {
            Unit::None => {}
            Unit::Mxu => self.mxu += matmul_cycles(op),
            Unit::Xlu => self.xlu += 1,
            Unit::Valu => self.valu += 1,
            Unit::Vpop => self.vpop += 1,
            Unit::Eup => self.eup += 1,
            Unit::Vload => {
                self.vload += 1;
                self.fill += u64::from(op == "vld" && touches_spill(args));
            }
            Unit::Vstore => {
                self.vstore += 1;
                self.spill += u64::from(touches_spill(args));
            }
            Unit::Salu => self.salu += 1,
        }
    }
}

/// Whether an address is in a spill slot: `[vmem:[#allocation20_spill] sm:$0xff]`.
pub fn touches_spill(args: &str) -> bool {
    args.contains("_spill")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Free operations: pseudo operations, and matrix unit pushes, which have their own slots.
    None,
    Mxu,
    Xlu,
    Valu,
    Vpop,
    Eup,
    Vload,
    Vstore,
    Salu,
}

/// Cycles that one `vmatmul` occupies a matrix unit: 8 for native operand types, 16 where the compiler widens f8e4m3fn
/// through `f8e4m3b11` (from its tables for tpu7x and v6e).
fn matmul_cycles(op: &str) -> u64 {
    if op.contains("f8e4m3b11") { 16 } else { 8 }
}

fn unit(op: &str) -> Unit {
    const CROSS_LANE: [&str; 5] = ["vrot", "vperm", "vxpose", "vbcast", "vset"];
    const TRANSCENDENTAL: [&str; 8] = ["vrcp", "vrsqrt", "vpow2", "vlog2", "vtanh", "verf", "vsin", "vcos"];
    let begins = |names: &[&str]| names.iter().any(|name| op.starts_with(name));
    match op.as_bytes().first() {
        Some(b'v') => match () {
            () if op.starts_with("vmatmul") => Unit::Mxu,
            () if begins(&["vmat", "vdwg"]) => Unit::None,
            () if op == "vld" || op.starts_with("vld.") || op.starts_with("vsync") => Unit::Vload,
            () if op == "vst" || begins(&["vst.", "vpush"]) => Unit::Vstore,
            () if op == "vpop.sfrf" => Unit::Salu,
            () if op.starts_with("vpop") => Unit::Vpop,
            () if op.contains(".xlane") || begins(&CROSS_LANE) => Unit::Xlu,
            () if begins(&TRANSCENDENTAL) => Unit::Eup,
            () => Unit::Valu,
        },
        Some(b's') if op == "sphi" => Unit::None,
        Some(b's' | b'p') => Unit::Salu,
        Some(b'd') if op.starts_with("dma.done") => Unit::Vload,
        Some(b'd') if op.starts_with("dma.") => Unit::Salu,
        _ => Unit::None,
    }
}
