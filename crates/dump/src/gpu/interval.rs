//! What an integer register or a predicate of PTX may hold.

/// A range of unsigned values, both ends included. Predicates are 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub low: u64,
    pub high: u64,
}

impl Interval {
    pub const PREDICATE: Self = Self { low: 0, high: 1 };

    pub const fn constant(value: u64) -> Self {
        Self { low: value, high: value }
    }

    /// Anything that so many bits hold.
    pub const fn bits(bits: u32) -> Self {
        Self { low: 0, high: if bits >= 64 { u64::MAX } else { (1 << bits) - 1 } }
    }

    pub fn value(self) -> Option<u64> {
        (self.low == self.high).then_some(self.low)
    }

    pub fn truth(self) -> Option<bool> {
        self.value().map(|value| value != 0)
    }

    pub fn of_truth(truth: Option<bool>) -> Self {
        truth.map_or(Self::PREDICATE, |truth| Self::constant(u64::from(truth)))
    }

    pub fn join(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// What an unsigned operation of so many bits gives; anything where it is not known here.
    pub fn compute(op: &str, bits: u32, inputs: &[Self]) -> Self {
        let any = Self::bits(bits);
        let exact = |ends: [Option<u64>; 2]| match ends {
            [Some(low), Some(high)] if high <= any.high && low <= high => Some(Self { low, high }),
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
            _ => None,
        };
        result.unwrap_or(any)
    }

    /// What a comparison gives, where every value of the ranges gives the same.
    /// `signed` is the width of signed operands.
    pub fn compare(comparison: &str, signed: Option<u32>, a: Self, b: Self) -> Option<bool> {
        // A negative number is a large one here; ranges that hold none compare alike either way.
        let is_negative = |range: Self| signed.is_some_and(|bits| range.high > Self::bits(bits - 1).high);
        if !matches!(comparison, "eq" | "ne") && (is_negative(a) || is_negative(b)) {
            return None;
        }
        let less = |a: Self, b: Self| match () {
            () if a.high < b.low => Some(true),
            () if a.low >= b.high => Some(false),
            () => None,
        };
        let equal = || match () {
            () if a.high < b.low || b.high < a.low => Some(false),
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
        Interval { low, high }
    }

    #[test]
    fn ranges_are_computed_or_given_up() {
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
    fn comparisons_that_every_value_decides_alike() {
        let compare = |op, a, b| Interval::compare(op, None, a, b);
        assert_eq!(compare("ge", range(0, 383), Interval::constant(384)), Some(false));
        assert_eq!(compare("ge", range(0, 383), Interval::constant(383)), None);
        assert_eq!(compare("lt", Interval::bits(32), Interval::constant(0)), Some(false));
        assert_eq!(compare("ne", Interval::constant(7), Interval::constant(7)), Some(false));
        assert_eq!(compare("eq", range(0, 31), Interval::constant(32)), Some(false));
        assert_eq!(Interval::compare("lt", Some(32), Interval::bits(32), Interval::constant(0)), None);
    }
}
