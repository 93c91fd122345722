//! Known divisors of the integers of a kernel.

use std::collections::HashMap;

use crate::{
    attribute::Attr,
    ir::{Function, Op, Value},
};

/// For every value, a number that always divides it. 0 is divisible by everything.
pub(super) struct Divisors(HashMap<Value, u64>);

impl Divisors {
    pub(super) fn new(function: &Function) -> Self {
        let mut divisors = Self(HashMap::new());
        function.walk(&mut |op| {
            if let [result] = op.results[..] {
                let divisor = divisors.of_op(op);
                divisors.0.insert(result, divisor);
            }
        });
        divisors
    }

    pub(super) fn of(&self, value: Value) -> u64 {
        self.0.get(&value).copied().unwrap_or(1)
    }

    fn of_op(&self, op: &Op) -> u64 {
        let operand = |number: usize| op.operands.get(number).map_or(1, |&value| self.of(value));
        match op.name.as_ref() {
            "arith.constant" => match op.attributes.get("value") {
                Some(Attr::Integer(value, _)) => value.unsigned_abs(),
                _ => 1,
            },
            "arith.muli" => match (operand(0), operand(1)) {
                (0, _) | (_, 0) => 0,
                (a, b) => a.saturating_mul(b),
            },
            "arith.addi" | "arith.subi" => gcd(operand(0), operand(1)),
            "arith.select" => gcd(operand(1), operand(2)),
            "arith.remsi" | "arith.remui" => gcd(operand(0), operand(1)),
            "arith.maxsi" | "arith.minsi" => gcd(operand(0), operand(1)),
            "arith.index_cast" | "arith.extui" | "arith.extsi" => operand(0),
            "tpu.assume_multiple" => match op.attributes.get("multiple") {
                Some(Attr::Integer(multiple, _)) => multiple.unsigned_abs(),
                _ => operand(0),
            },
            _ => 1,
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
