//! Elementwise arithmetic, comparisons and conversions.

use super::{Definition, array_op, same_types, tensor_of};
use crate::{
    interpret::{
        array::{
            Dtype, map_floats, map_integers, write_booleans, write_floats_of as write_floats, write_integers,
        },
        program::{Compiler, Made},
    },
    ir::Op,
};

/// How an operation combines two floats.
pub(super) type FloatRule = fn(f64, f64) -> f64;

/// How an operation combines two integers of a type.
pub(super) type IntegerRule = fn(Dtype, i64, i64) -> i64;

/// How a binary operation computes.
#[derive(Clone, Copy)]
pub(super) struct BinaryRule {
    name: &'static str,
    pub(super) float: Option<FloatRule>,
    pub(super) integer: Option<IntegerRule>,
}

const fn both(name: &'static str, float: FloatRule, integer: IntegerRule) -> BinaryRule {
    BinaryRule { name, float: Some(float), integer: Some(integer) }
}

const fn integers(name: &'static str, integer: IntegerRule) -> BinaryRule {
    BinaryRule { name, float: None, integer: Some(integer) }
}

const BINARY: &[BinaryRule] = &[
    // Of booleans, a sum is true if one is, a product if both are.
    both("stablehlo.add", |a, b| a + b, |ty, a, b| if ty == Dtype::Bool { a | b } else { a.wrapping_add(b) }),
    both("stablehlo.subtract", |a, b| a - b, |_, a, b| a.wrapping_sub(b)),
    both("stablehlo.multiply", |a, b| a * b, |_, a, b| a.wrapping_mul(b)),
    both("stablehlo.divide", |a, b| a / b, divide),
    both("stablehlo.remainder", |a, b| a % b, remainder),
    both("stablehlo.maximum", maximum, |ty, a, b| if less(ty, a, b) { b } else { a }),
    both("stablehlo.minimum", minimum, |ty, a, b| if less(ty, b, a) { b } else { a }),
    both("stablehlo.power", f64::powf, power),
    BinaryRule { name: "stablehlo.atan2", float: Some(f64::atan2), integer: None },
    integers("stablehlo.and", |_, a, b| a & b),
    integers("stablehlo.or", |_, a, b| a | b),
    integers("stablehlo.xor", |_, a, b| a ^ b),
    integers("stablehlo.shift_left", |ty, a, b| if in_width(ty, b) { a << b } else { 0 }),
    integers("stablehlo.shift_right_logical", |ty, a, b| {
        let bits = ty.integer().0;
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        if in_width(ty, b) { ((a as u64 & mask) >> b) as i64 } else { 0 }
    }),
    integers("stablehlo.shift_right_arithmetic", |ty, a, b| {
        let bits = ty.integer().0;
        let signed = if bits == 64 { a } else { a << (64 - bits) >> (64 - bits) };
        signed >> if in_width(ty, b) { b } else { 63 }
    }),
];

/// Rule of a binary operation.
pub(super) fn binary_rule(name: &str) -> Option<&'static BinaryRule> {
    BINARY.iter().find(|rule| rule.name == name)
}

fn in_width(ty: Dtype, amount: i64) -> bool {
    (0..i64::from(ty.integer().0)).contains(&amount)
}

pub(super) fn less(ty: Dtype, a: i64, b: i64) -> bool {
    if ty.integer().1 { a < b } else { (a as u64) < b as u64 }
}

/// Division by zero gives all ones, as XLA defines it.
fn divide(ty: Dtype, a: i64, b: i64) -> i64 {
    match (b, ty.integer().1) {
        (0, _) => -1,
        (b, true) => a.wrapping_div(b),
        (b, false) => (a as u64 / b as u64) as i64,
    }
}

/// The remainder of a division by zero is the dividend.
fn remainder(ty: Dtype, a: i64, b: i64) -> i64 {
    match (b, ty.integer().1) {
        (0, _) => a,
        (b, true) => a.wrapping_rem(b),
        (b, false) => (a as u64 % b as u64) as i64,
    }
}

fn power(ty: Dtype, base: i64, exponent: i64) -> i64 {
    if ty.integer().1 && exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            0 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i64, base, exponent as u64);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

/// The larger one; NaN if one is.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    if a.total_cmp(&b).is_lt() { b } else { a }
}

pub(super) fn minimum(a: f64, b: f64) -> f64 {
    -maximum(-a, -b)
}

/// Compiles a binary operation.
pub(super) fn binary(c: &mut Compiler<'_>, op: &Op) -> Made {
    let rule = binary_rule(&op.name).ok_or("unknown operation")?;
    let (dtype, shape) = same_types(c, op, 2)?;
    match (dtype.is_float(), rule.float, rule.integer) {
        (true, Some(rule), _) => array_op(2, move |arrays| {
            let [a, b] = arrays else { unreachable!("two operands") };
            map_floats([a, b], &shape, dtype, |[a, b]| rule(a, b), write_floats)
        }),
        (false, _, Some(rule)) => array_op(2, move |arrays| {
            let [a, b] = arrays else { unreachable!("two operands") };
            map_integers([a, b], &shape, dtype, |[a, b]| rule(dtype, a, b), write_integers)
        }),
        _ => Err(format!("it does not take {dtype}").into()),
    }
}

/// How a unary operation computes.
struct UnaryRule {
    name: &'static str,
    float: Option<fn(f64) -> f64>,
    integer: Option<fn(Dtype, i64) -> i64>,
}

const fn float(name: &'static str, float: fn(f64) -> f64) -> UnaryRule {
    UnaryRule { name, float: Some(float), integer: None }
}

const UNARY: &[UnaryRule] = &[
    UnaryRule { name: "stablehlo.abs", float: Some(f64::abs), integer: Some(|_, a| a.wrapping_abs()) },
    UnaryRule { name: "stablehlo.negate", float: Some(|a| -a), integer: Some(|_, a| a.wrapping_neg()) },
    UnaryRule { name: "stablehlo.sign", float: Some(sign), integer: Some(|_, a| a.signum()) },
    UnaryRule { name: "stablehlo.not", float: None, integer: Some(|_, a| !a) },
    UnaryRule {
        name: "stablehlo.popcnt",
        float: None,
        integer: Some(|ty, a| masked(ty, a).count_ones().into()),
    },
    UnaryRule { name: "stablehlo.count_leading_zeros", float: None, integer: Some(leading_zeros) },
    UnaryRule { name: "chlo.square", float: Some(|a| a * a), integer: Some(|_, a| a.wrapping_mul(a)) },
    float("stablehlo.exponential", f64::exp),
    float("stablehlo.exponential_minus_one", f64::exp_m1),
    float("stablehlo.log", f64::ln),
    float("stablehlo.log_plus_one", f64::ln_1p),
    float("stablehlo.logistic", |a| 1.0 / (1.0 + (-a).exp())),
    float("stablehlo.tanh", f64::tanh),
    float("stablehlo.sine", f64::sin),
    float("stablehlo.cosine", f64::cos),
    float("stablehlo.tan", f64::tan),
    float("stablehlo.sqrt", f64::sqrt),
    float("stablehlo.rsqrt", |a| 1.0 / a.sqrt()),
    float("stablehlo.cbrt", f64::cbrt),
    float("stablehlo.floor", f64::floor),
    float("stablehlo.ceil", f64::ceil),
    float("stablehlo.round_nearest_even", f64::round_ties_even),
    float("stablehlo.round_nearest_afz", f64::round),
    float("chlo.erf", libm::erf),
    float("chlo.erfc", libm::erfc),
    float("chlo.erf_inv", erf_inv),
    float("chlo.sinh", f64::sinh),
    float("chlo.cosh", f64::cosh),
    float("chlo.asin", f64::asin),
    float("chlo.acos", f64::acos),
    float("chlo.atan", f64::atan),
    float("chlo.asinh", f64::asinh),
    float("chlo.acosh", f64::acosh),
    float("chlo.atanh", f64::atanh),
    float("chlo.lgamma", libm::lgamma),
];

/// The sign; zeros and NaN stay.
fn sign(value: f64) -> f64 {
    if value == 0.0 || value.is_nan() { value } else { value.signum() }
}

/// Inverts the error function: an estimate, then Newton's method.
fn erf_inv(value: f64) -> f64 {
    if value.is_nan() || value.abs() >= 1.0 {
        return if value.abs() == 1.0 { value * f64::INFINITY } else { f64::NAN };
    }
    // Winitzki's approximation, within 0.2 %.
    let log = (-value * value).ln_1p();
    let half = 2.0 / (std::f64::consts::PI * 0.147) + log / 2.0;
    let mut guess = ((half * half - log / 0.147).sqrt() - half).sqrt().copysign(value);
    for _ in 0..4 {
        let slope = std::f64::consts::FRAC_2_SQRT_PI * (-guess * guess).exp();
        guess -= (libm::erf(guess) - value) / slope;
    }
    guess
}

/// The bits of an integer of this type.
fn masked(ty: Dtype, value: i64) -> u64 {
    match ty.integer().0 {
        64 => value as u64,
        bits => value as u64 & ((1 << bits) - 1),
    }
}

fn leading_zeros(ty: Dtype, value: i64) -> i64 {
    i64::from(masked(ty, value).leading_zeros()) - i64::from(64 - ty.integer().0)
}

fn unary(c: &mut Compiler<'_>, op: &Op) -> Made {
    let rule = UNARY.iter().find(|rule| rule.name == op.name).ok_or("unknown operation")?;
    let (dtype, shape) = same_types(c, op, 1)?;
    match (dtype.is_float(), rule.float, rule.integer) {
        (true, Some(rule), _) => array_op(1, move |arrays| {
            let [a] = arrays else { unreachable!("one operand") };
            map_floats([a], &shape, dtype, |[a]| rule(a), write_floats)
        }),
        (false, _, Some(rule)) => array_op(1, move |arrays| {
            let [a] = arrays else { unreachable!("one operand") };
            map_integers([a], &shape, dtype, |[a]| rule(dtype, a), write_integers)
        }),
        _ => Err(format!("it does not take {dtype}").into()),
    }
}

fn is_finite(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, shape) = tensor_of(c, c.operand(op, 0)?)?;
    let (to, result) = tensor_of(c, c.result(op, 0)?)?;
    let rule: fn(f64) -> bool = match op.name.as_ref() {
        "chlo.is_inf" => f64::is_infinite,
        "chlo.is_pos_inf" => |a| a == f64::INFINITY,
        "chlo.is_neg_inf" => |a| a == f64::NEG_INFINITY,
        _ => f64::is_finite,
    };
    if !from.is_float() || to != Dtype::Bool || result != shape {
        return Err("it takes floats and gives booleans of their shape".into());
    }
    array_op(1, move |arrays| {
        let [a] = arrays else { unreachable!("one operand") };
        map_floats([a], &shape, Dtype::Bool, |[a]| rule(a), write_booleans)
    })
}

/// Attributes that do not change results.
const IGNORED: &[&str] = &["result_accuracy", "mhlo.frontend_attributes"];

pub(super) const fn entry(name: &'static str, make: super::super::Maker) -> Definition {
    super::pure(name, IGNORED, make)
}

pub(in crate::interpret) const OPS: &[Definition] = &[
    entry("stablehlo.add", binary),
    entry("stablehlo.subtract", binary),
    entry("stablehlo.multiply", binary),
    entry("stablehlo.divide", binary),
    entry("stablehlo.remainder", binary),
    entry("stablehlo.maximum", binary),
    entry("stablehlo.minimum", binary),
    entry("stablehlo.power", binary),
    entry("stablehlo.atan2", binary),
    entry("stablehlo.and", binary),
    entry("stablehlo.or", binary),
    entry("stablehlo.xor", binary),
    entry("stablehlo.shift_left", binary),
    entry("stablehlo.shift_right_logical", binary),
    entry("stablehlo.shift_right_arithmetic", binary),
    entry("stablehlo.abs", unary),
    entry("stablehlo.negate", unary),
    entry("stablehlo.sign", unary),
    entry("stablehlo.not", unary),
    entry("stablehlo.popcnt", unary),
    entry("stablehlo.count_leading_zeros", unary),
    entry("stablehlo.exponential", unary),
    entry("stablehlo.exponential_minus_one", unary),
    entry("stablehlo.log", unary),
    entry("stablehlo.log_plus_one", unary),
    entry("stablehlo.logistic", unary),
    entry("stablehlo.tanh", unary),
    entry("stablehlo.sine", unary),
    entry("stablehlo.cosine", unary),
    entry("stablehlo.tan", unary),
    entry("stablehlo.sqrt", unary),
    entry("stablehlo.rsqrt", unary),
    entry("stablehlo.cbrt", unary),
    entry("stablehlo.floor", unary),
    entry("stablehlo.ceil", unary),
    entry("stablehlo.round_nearest_even", unary),
    entry("stablehlo.round_nearest_afz", unary),
    entry("chlo.erf", unary),
    entry("chlo.erfc", unary),
    entry("chlo.erf_inv", unary),
    entry("chlo.square", unary),
    entry("chlo.sinh", unary),
    entry("chlo.cosh", unary),
    entry("chlo.asin", unary),
    entry("chlo.acos", unary),
    entry("chlo.atan", unary),
    entry("chlo.asinh", unary),
    entry("chlo.acosh", unary),
    entry("chlo.atanh", unary),
    entry("chlo.lgamma", unary),
    entry("chlo.is_inf", is_finite),
    entry("chlo.is_pos_inf", is_finite),
    entry("chlo.is_neg_inf", is_finite),
    entry("stablehlo.is_finite", is_finite),
];
