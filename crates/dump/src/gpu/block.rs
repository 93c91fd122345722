//! Ranges of special registers, and the syntax of numbers.

use octile_ptx::ir::Function;

use super::interval::Interval;

/// Threads of a CTA in each dimension.
pub(super) struct Block {
    max: [u64; 3],
    /// Whether the counts are exact (`.reqntid`).
    exact: bool,
}

impl Block {
    /// Declared by `.maxntid 384, 1, 1` or `.reqntid 128`, else limited by the hardware.
    pub(super) fn of(function: &Function<'_>) -> Self {
        const MAX: [u64; 3] = [1024, 1024, 64];
        let declared = |name| {
            let found = function.directives.iter().find(|directive| directive.name == name);
            found.map(|directive| &directive.arguments).filter(|arguments| !arguments.is_empty())
        };
        let (required, allowed) = (declared(".reqntid"), declared(".maxntid"));
        let Some(counts) = required.or(allowed) else { return Self { max: MAX, exact: false } };
        let mut counts = counts.iter().map(|count| count.parse::<u64>().ok());
        let max = MAX.map(|max| counts.next().map_or(1, |declared| declared.map_or(max, |n| n.min(max))));
        Self { max, exact: required.is_some() }
    }

    /// Range of a special register; `None` where it is not modelled.
    pub(super) fn special(&self, name: &str) -> Option<Interval> {
        /// Warps of an SM.
        const WARPS: u64 = 64;
        const MAX_CTAS: [u64; 3] = [(1 << 31) - 1, 65535, 65535];
        let below = |count: u64| Interval::range(0, count.saturating_sub(1));
        let (base, axis) = name.split_once('.').unwrap_or((name, "x"));
        let axis = ["x", "y", "z"].iter().position(|known| *known == axis)?;
        let (threads, ctas) = (*self.max.get(axis)?, *MAX_CTAS.get(axis)?);
        Some(match base {
            "%tid" => below(threads),
            "%ntid" if self.exact => Interval::constant(threads),
            "%ntid" => Interval::range(1, threads.max(1)),
            "%ctaid" => below(ctas),
            "%nctaid" => Interval::range(1, ctas),
            "%laneid" => below(32),
            "%warpid" => below(WARPS),
            "%nwarpid" => Interval::range(1, WARPS),
            _ => return None,
        })
    }
}

/// Bits of a type: `u32`, `b64`, `pred`.
pub(super) fn width(kind: &str) -> u32 {
    match kind {
        "pred" => 1,
        _ => kind
            .trim_start_matches(|c: char| c.is_ascii_alphabetic())
            .parse()
            .ok()
            .filter(|bits| (1..=64).contains(bits))
            .unwrap_or(64),
    }
}

/// An integer, or the bits of a float: `42`, `0x2aU`, `-1`, `0f3F800000`.
pub(super) fn number(text: &str, bits: u32) -> Option<u64> {
    let bits_of = |prefix: &str, digits: usize| {
        let hex = text.strip_prefix(prefix).filter(|hex| hex.len() == digits)?;
        u64::from_str_radix(hex, 16).ok()
    };
    let float = [("0f", 8), ("0F", 8), ("0d", 16), ("0D", 16)];
    if let Some(value) = float.into_iter().find_map(|(prefix, digits)| bits_of(prefix, digits)) {
        return Some(value);
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex.trim_end_matches('U'), 16).ok()?,
        None => digits.trim_end_matches('U').parse().ok()?,
    };
    let value = if negative { value.wrapping_neg() } else { value };
    Some(value & Interval::bits(bits).high)
}
