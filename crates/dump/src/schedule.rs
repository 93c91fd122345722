//! The compiler's schedule analysis (`*schedule-analysis_*.txt`).

use serde::Serialize;

use crate::source::{Damage, LineIndex, Span};

/// Placeholder for bundles that belong to no HLO instruction.
const NO_HLO: &str = "<no hlo>";

/// Bundles of one HLO instruction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HloShare {
    /// Bundles; one shared by two instructions counts half for each.
    pub bundles: f64,
    /// Name of the instruction without `%`, or `<no hlo>`.
    pub name: String,
}

/// Bundles of all instructions of one opcode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpcodeShare {
    /// For example `custom-call`.
    pub opcode: String,
    /// Bundles.
    pub bundles: u64,
    /// Instructions.
    pub instances: u64,
}

/// Breakdown of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScheduleAnalysis {
    /// All bundles.
    pub total: u64,
    /// Empty bundles.
    pub empty: u64,
    /// Non-empty bundles.
    pub non_empty: u64,
    /// By instruction, largest first.
    pub by_hlo: Vec<HloShare>,
    /// By opcode, largest first.
    pub by_opcode: Vec<OpcodeShare>,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Damage>,
}

impl ScheduleAnalysis {
    /// Reads an analysis. Never fails: what cannot be read is in [`ScheduleAnalysis::damage`].
    pub fn parse(text: &str) -> Self {
        let mut analysis = Self::default();
        let lines = LineIndex::new(text);
        let mut offset = 0;
        let mut headed = false;
        // Attributes of an HLO instruction may contain line breaks.
        let mut open_braces = 0usize;
        for line in text.split_inclusive('\n') {
            let trimmed = line.trim();
            let known = match trimmed {
                "" => true,
                "Schedule analysis:" => {
                    headed = true;
                    true
                }
                _ if open_braces > 0 => true,
                _ => headed && analysis.line(trimmed).is_some(),
            };
            for byte in trimmed.bytes().filter(|_| known) {
                match byte {
                    b'{' => open_braces += 1,
                    b'}' => open_braces = open_braces.saturating_sub(1),
                    _ => {}
                }
            }
            if !known {
                let place = lines.place(Span::new(offset, offset).start);
                let what = "this is no line of a schedule analysis".to_owned();
                analysis.damage.push(Damage { place, what });
                if !headed {
                    break;
                }
            }
            offset += line.len();
        }
        if analysis.damage.is_empty() {
            let what = match headed {
                false => "the schedule analysis is empty",
                true if analysis.adds_up() => return analysis,
                true => "the parts do not add up to the whole: the file is cut off",
            };
            let place = if headed { lines.place(Span::new(offset, offset).start) } else { lines.place(0) };
            analysis.damage.push(Damage { place, what: what.to_owned() });
        }
        analysis
    }

    /// Checks that the shares of instructions add up to the non-empty bundles, and those of opcodes to no
    /// less, up to rounding: a bundle shared by two opcodes counts for each.
    fn adds_up(&self) -> bool {
        let named = |share: &&HloShare| share.name != NO_HLO;
        let by_hlo: f64 = self.by_hlo.iter().map(|share| share.bundles).sum();
        let by_name: f64 = self.by_hlo.iter().filter(named).map(|share| share.bundles).sum();
        let by_opcode: f64 = self.by_opcode.iter().map(|share| share.bundles as f64).sum();
        let rounding = |parts: usize| 0.5 + 0.5 * parts as f64;
        self.total > 0
            && self.total == self.empty.saturating_add(self.non_empty)
            && (by_hlo - self.non_empty as f64).abs() <= rounding(self.by_hlo.len())
            && by_opcode >= by_name - rounding(self.by_opcode.len())
    }

    fn line(&mut self, line: &str) -> Option<()> {
        if let Some((what, count)) = line.split_once(" scheduled bundles:") {
            let count = count.trim().parse().ok()?;
            match what.trim() {
                "total" => self.total = count,
                "empty" => self.empty = count,
                "non empty" => self.non_empty = count,
                _ => return None,
            }
            return Some(());
        }
        let (count, rest) = line.split_once(" scheduled bundles (")?;
        let (_percent, what) = rest.split_once("): ")?;
        match count.strip_prefix("[opcode]") {
            Some(count) => {
                let (opcode, instances) = what.split_once('(')?;
                self.by_opcode.push(OpcodeShare {
                    opcode: opcode.trim().to_owned(),
                    bundles: count.trim().parse().ok()?,
                    instances: instances.split(' ').next()?.parse().ok()?,
                });
            }
            None => {
                let name = what.split(" = ").next().unwrap_or(what);
                self.by_hlo.push(HloShare {
                    bundles: count.trim().parse().ok()?,
                    name: name.trim_start_matches('%').to_owned(),
                });
            }
        }
        Some(())
    }
}
