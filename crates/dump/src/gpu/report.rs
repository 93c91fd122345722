//! What `ptxas -v` says of a kernel.

use serde::Serialize;

/// Resources of one kernel, as the assembler reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AssemblerReport {
    /// Registers of a thread when it starts.
    pub registers: u64,
    /// Bytes of stack of a thread.
    pub stack: u64,
    /// Bytes of registers that are stored because they do not fit.
    pub spill_stores: u64,
    /// Bytes of them that are loaded again.
    pub spill_loads: u64,
    /// Bytes of shared memory that the text declares; what a launch asks for comes on top.
    pub static_shared: u64,
}

impl AssemblerReport {
    /// How such a report begins.
    pub const HEAD: &str = "ptxas info";

    /// Reads a report about one kernel; `None` where its figures are not all there.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self {
            registers: before(text, " registers")?,
            stack: before(text, " bytes stack frame")?,
            spill_stores: before(text, " bytes spill stores")?,
            spill_loads: before(text, " bytes spill loads")?,
            static_shared: before(text, " bytes smem").unwrap_or(0),
        })
    }
}

/// The number that stands before `unit`.
fn before(text: &str, unit: &str) -> Option<u64> {
    let (head, _) = text.split_once(unit)?;
    head.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'f8' for 'sm_90a'\n\
        ptxas info    : Function properties for f8\n    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n\
        ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem\n";

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
