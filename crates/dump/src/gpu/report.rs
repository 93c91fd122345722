//! The report of `ptxas -v`.

use serde::Serialize;

/// Resources of one kernel, as ptxas reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AssemblerReport {
    /// Registers per thread at launch.
    pub registers: u64,
    /// Stack bytes per thread.
    pub stack: u64,
    /// Bytes of spill stores.
    pub spill_stores: u64,
    /// Bytes of spill loads.
    pub spill_loads: u64,
    /// Bytes of static shared memory; dynamic shared memory comes on top.
    pub static_shared: u64,
}

const REGISTERS: &str = " registers";
const SPILL_STORES: &str = " bytes spill stores";

impl AssemblerReport {
    /// Start of a report.
    pub const HEAD: &str = "ptxas info";

    /// Parses a report about one kernel; `None` where a figure is missing.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self {
            registers: before(text, REGISTERS)?,
            stack: before(text, " bytes stack frame")?,
            spill_stores: before(text, SPILL_STORES)?,
            spill_loads: before(text, " bytes spill loads")?,
            static_shared: before(text, " bytes smem").unwrap_or(0),
        })
    }

    /// Byte offset of the register count.
    pub fn registers_at(text: &str) -> Option<usize> {
        text.find(REGISTERS).map(|unit| number_start(text, unit))
    }

    /// Byte offset of the spill figures.
    pub fn spills_at(text: &str) -> Option<usize> {
        text.find(SPILL_STORES).map(|unit| number_start(text, unit))
    }
}

/// The number before `unit`.
fn before(text: &str, unit: &str) -> Option<u64> {
    let end = text.find(unit)?;
    text.get(number_start(text, end)..end)?.parse().ok()
}

/// Start of the digits that end at `end`.
fn number_start(text: &str, end: usize) -> usize {
    let head = text.get(..end).unwrap_or_default();
    head.trim_end_matches(|c: char| c.is_ascii_digit()).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "ptxas info    : 0 bytes gmem\n\
        ptxas info    : Compiling entry function 'f8' for 'sm_90a'\n\
        ptxas info    : Function properties for f8\n    \
        16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n\
        ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size, \
        1024 bytes smem\n";

    #[test]
    fn the_figures_of_a_report() {
        let report = AssemblerReport::parse(REPORT).unwrap();
        let expected = AssemblerReport {
            registers: 168,
            stack: 16,
            spill_stores: 12,
            spill_loads: 8,
            static_shared: 1024,
        };
        assert_eq!(report, expected);
        assert_eq!(AssemblerReport::parse(&REPORT.replace("registers", "")), None);
        assert_eq!(AssemblerReport::parse(&REPORT.replace("168", "")), None);
        assert_eq!(AssemblerReport::parse(&REPORT.replace("168", &"9".repeat(30))), None);
    }
}
