//! The compiler's cycle estimates (`*_static_llo_profile.textproto`).

use serde::Serialize;

/// Cycle estimate of one HLO instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// The instruction, without `%`.
    pub name: String,
    /// Cycles, memory latency included; 0 where the compiler gives up, as on DMAs that a kernel issues.
    pub cycles: u64,
}

/// Reads every estimate of a profile; empty if the text is not one.
pub fn estimates(text: &str) -> Vec<Estimate> {
    text.split("hlo_op_estimate").skip(1).filter_map(estimate).collect()
}

/// `{ hlo_op_name: "v1.1" estimated_cycles: 55216 .. }`
fn estimate(text: &str) -> Option<Estimate> {
    let field = |name: &str| {
        let mut lines = text.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    Some(Estimate {
        name: field("hlo_op_name")?.trim_matches('"').to_owned(),
        // Text protos omit zeros.
        cycles: field("estimated_cycles").map_or(Some(0), |cycles| cycles.parse().ok())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read() {
        let text = "hlo_op_estimate {\n  hlo_op_name: \"v1.1\"\n  estimated_cycles: 55216\n  scalar_inputs: 0\n}\n\
                    hlo_op_estimate {\n  hlo_op_name: \"v2.1\"\n}\n";
        let read = estimates(text);
        assert_eq!(
            read.iter().map(|e| (e.name.as_str(), e.cycles)).collect::<Vec<_>>(),
            [("v1.1", 55216), ("v2.1", 0)]
        );
        assert_eq!(estimates("HloModule m"), []);
        assert_eq!(estimates("hlo_op_estimate { estimated_cycles: x"), []);
    }
}
