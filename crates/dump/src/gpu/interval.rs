//! Value ranges of integer registers and predicates.

/// A range of unsigned values, both ends included, and the bits that may be set. Predicates are 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub low: u64,
    pub high: u64,
    may: u64,
}

impl Interval {
    pub(super) const PREDICATE: Self = Self::range(0, 1);

    pub(super) const fn constant(value: u64) -> Self {
        Self { low: value, high: value, may: value }
    }

    pub(super) const fn range(low: u64, high: u64) -> Self {
        Self { low, high, may: u64::MAX.unbounded_shr(high.leading_zeros()) }
    }

    /// Any value of this many bits.
    pub(super) const fn bits(bits: u32) -> Self {
        Self::range(0, if bits >= 64 { u64::MAX } else { (1 << bits) - 1 })
    }

    pub(super) fn value(self) -> Option<u64> {
        (self.low == self.high).then_some(self.low)
    }

    pub(super) fn truth(self) -> Option<bool> {
        self.value().map(|value| value != 0)
    }

    pub(super) fn of_truth(truth: Option<bool>) -> Self {
        truth.map_or(Self::PREDICATE, |truth| Self::constant(u64::from(truth)))
    }

    pub(super) fn join(self, other: Self) -> Self {
        let may = self.may | other.may;
        Self { low: self.low.min(other.low), high: self.high.max(other.high), may }
    }

    /// The values that have no other bits.
    fn with_bits(self, may: u64) -> Self {
        let may = self.may & may;
        Self { low: self.low.min(may), high: self.high.min(may), may }
    }

    /// The bits that an operation may set.
    fn bits_of(op: &str, inputs: &[Self]) -> u64 {
        match (op, inputs) {
            ("mov", [a]) => a.may,
            ("and", [a, b]) => a.may & b.may,
            ("or" | "xor", [a, b]) => a.may | b.may,
            ("shl", [a, by]) => by.value().map_or(u64::MAX, |by| a.may.unbounded_shl(by.min(64) as u32)),
            ("shr", [a, by]) => by.value().map_or(u64::MAX, |by| a.may.unbounded_shr(by.min(64) as u32)),
            // A multiple of a power of two.
            ("mul", [a, b]) => {
                u64::MAX.unbounded_shl(a.may.trailing_zeros().saturating_add(b.may.trailing_zeros()))
            }
            ("add" | "sub", [a, b]) => {
                u64::MAX.unbounded_shl(a.may.trailing_zeros().min(b.may.trailing_zeros()))
            }
            _ => u64::MAX,
        }
    }

    /// Result of an unsigned operation of this many bits; any value where the operation is not modelled.
    pub(super) fn compute(op: &str, bits: u32, inputs: &[Self]) -> Self {
        let any = Self::bits(bits);
        let exact = |ends: [Option<u64>; 2]| match ends {
            [Some(low), Some(high)] if high <= any.high && low <= high => Some(Self::range(low, high)),
            _ => None,
        };
        let result = match (op, inputs) {
            ("mov", [a]) => exact([Some(a.low), Some(a.high)]),
            ("add", [a, b]) => exact([a.low.checked_add(b.low), a.high.checked_add(b.high)]),
            ("sub", [a, b]) => exact([a.low.checked_sub(b.high), a.high.checked_sub(b.low)]),
            ("mul", [a, b]) => exact([a.low.checked_mul(b.low), a.high.checked_mul(b.high)]),
            ("mad", [a, b, c]) => {
                let end = |a: u64, b: u64, c: u64| a.checked_mul(b)?.checked_add(c);
                exact([end(a.low, b.low, c.low), end(a.high, b.high, c.high)])
            }
            ("min", [a, b]) => exact([Some(a.low.min(b.low)), Some(a.high.min(b.high))]),
            ("max", [a, b]) => exact([Some(a.low.max(b.low)), Some(a.high.max(b.high))]),
            ("and", [a, b]) => match (a.value(), b.value()) {
                (Some(a), Some(b)) => exact([Some(a & b); 2]),
                _ => exact([Some(0), Some(a.high.min(b.high))]),
            },
            ("or", [a, b]) => exact([a.value().zip(b.value()).map(|(a, b)| a | b); 2]),
            ("xor", [a, b]) => exact([a.value().zip(b.value()).map(|(a, b)| a ^ b); 2]),
            ("shr", [a, b]) => {
                let by = b.value().and_then(|by| u32::try_from(by).ok());
                exact([a.low, a.high].map(|end| Some(end.checked_shr(by?).unwrap_or(0))))
            }
            ("shl", [a, b]) => {
                let by = b.value().and_then(|by| u32::try_from(by).ok());
                let shift = |end: u64| end.checked_mul(1u64.checked_shl(by?)?);
                exact([shift(a.low), shift(a.high)])
            }
            ("div", [a, b]) => exact([a.low.checked_div(b.high), a.high.checked_div(b.low)]),
            ("rem", [a, b]) => exact([Some(0), b.high.checked_sub(1).map(|most| most.min(a.high))]),
            ("popc" | "clz", [a]) => match (op, a.value()) {
                ("popc", Some(a)) => exact([Some(u64::from(a.count_ones())); 2]),
                _ => exact([Some(0), Some(u64::from(bits))]),
            },
            ("not", [a]) => exact([a.value().map(|a| !a & any.high); 2]),
            ("bfe", [a, from, length]) => from.value().zip(length.value()).and_then(|(from, length)| {
                let mask = Self::bits(length.min(64) as u32).high;
                let part = |value: u64| value.unbounded_shr(from.min(64) as u32) & mask;
                exact(a.value().map_or([Some(0), Some(mask.min(any.high))], |a| [Some(part(a)); 2]))
            }),
            _ => None,
        };
        result.unwrap_or(any).with_bits(Self::bits_of(op, inputs))
    }

    /// The range as signed numbers of this many bits.
    fn signed(self, bits: u32) -> (i64, i64) {
        let unused = 64 - bits.clamp(1, 64);
        let extend = |value: u64| ((value << unused) as i64) >> unused;
        let (low, high) = (extend(self.low), extend(self.high));
        if low <= high && self.high <= Self::bits(bits).high {
            (low, high)
        } else {
            (i64::MIN >> unused, i64::MAX >> unused)
        }
    }

    /// Result of a comparison of f32 or f64 constants; `None` where an operand is not constant.
    pub(super) fn compare_floats(comparison: &str, bits: u32, a: Self, b: Self) -> Option<bool> {
        let float = |range: Self| {
            let value = range.value()?;
            Some(if bits == 32 { f64::from(f32::from_bits(value as u32)) } else { f64::from_bits(value) })
        };
        let order = float(a)?.partial_cmp(&float(b)?);
        // `ltu` is also true for NaN.
        let (comparison, unordered) = match comparison.strip_suffix('u').filter(|rest| rest.len() == 2) {
            Some(comparison) => (comparison, true),
            None => (comparison, false),
        };
        let Some(order) = order else { return Some(unordered || comparison == "nan") };
        match comparison {
            "lt" => Some(order.is_lt()),
            "le" => Some(order.is_le()),
            "gt" => Some(order.is_gt()),
            "ge" => Some(order.is_ge()),
            "eq" => Some(order.is_eq()),
            "ne" => Some(order.is_ne()),
            "num" => Some(true),
            "nan" => Some(false),
            _ => None,
        }
    }

    /// Result of a comparison, where all values of the ranges agree. `signed` is the width of signed
    /// operands.
    pub(super) fn compare(comparison: &str, signed: Option<u32>, a: Self, b: Self) -> Option<bool> {
        let less = |a: Self, b: Self| {
            // Always below, or never below.
            let (below, not_below) = match signed {
                Some(bits) => {
                    let ((a_low, a_high), (b_low, b_high)) = (a.signed(bits), b.signed(bits));
                    (a_high < b_low, a_low >= b_high)
                }
                None => (a.high < b.low, a.low >= b.high),
            };
            (below || not_below).then_some(below)
        };
        let lacks_bits = |a: Self, b: Self| b.value().is_some_and(|b| b & !a.may != 0);
        let equal = || match () {
            () if a.high < b.low || b.high < a.low || lacks_bits(a, b) || lacks_bits(b, a) => Some(false),
            () => a.value().zip(b.value()).map(|(a, b)| a == b),
        };
        match comparison {
            "lt" | "lo" => less(a, b),
            "gt" | "hi" => less(b, a),
            "ge" | "hs" => less(a, b).map(|less| !less),
            "le" | "ls" => less(b, a).map(|less| !less),
            "eq" => equal(),
            "ne" => equal().map(|equal| !equal),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: u64, high: u64) -> Interval {
        Interval::range(low, high)
    }

    #[test]
    fn ranges_are_computed_or_unknown() {
        let of = |op, inputs: &[Interval]| Interval::compute(op, 32, inputs);
        assert_eq!(of("shr", &[range(0, 383), Interval::constant(5)]), range(0, 11));
        assert_eq!(of("and", &[Interval::bits(32), Interval::constant(31)]), range(0, 31));
        assert_eq!(of("mad", &[range(0, 3), Interval::constant(16), range(0, 64)]), range(0, 112));
        assert_eq!(of("sub", &[range(0, 3), Interval::constant(1)]), Interval::bits(32), "it may wrap");
        assert_eq!(of("add", &[Interval::bits(32), Interval::constant(1)]), Interval::bits(32));
        assert_eq!(of("bfe", &[Interval::constant(1)]), Interval::bits(32));
        assert_eq!(of("div", &[range(4, 9), range(0, 2)]), Interval::bits(32), "it may divide by zero");
    }

    #[test]
    fn comparisons_on_which_all_values_agree() {
        let compare = |op, a, b| Interval::compare(op, None, a, b);
        assert_eq!(compare("ge", range(0, 383), Interval::constant(384)), Some(false));
        assert_eq!(compare("ge", range(0, 383), Interval::constant(383)), None);
        assert_eq!(compare("lt", Interval::bits(32), Interval::constant(0)), Some(false));
        assert_eq!(compare("ne", Interval::constant(7), Interval::constant(7)), Some(false));
        assert_eq!(compare("eq", range(0, 31), Interval::constant(32)), Some(false));
        assert_eq!(Interval::compare("lt", Some(32), Interval::bits(32), Interval::constant(0)), None);
    }
}
