//! How far a result may be from the expected one, by what the kernel computes.

use std::collections::HashSet;

use octile_mosaic::{
    Attr, Float, Function, Module, Op, Type,
    interpret::{Element, OpKind, op_kind},
};
use serde::Serialize;

use super::dataflow::Dataflow;

/// Largest allowed difference of an element: `atol + rtol * |expected|`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tolerance {
    /// Relative to the expected element.
    pub rtol: f64,
    /// The same for every element.
    pub atol: f64,
}

impl Tolerance {
    /// Largest allowed difference from an expected element.
    pub(super) fn at(self, expected: f64) -> f64 {
        self.atol + self.rtol * expected.abs()
    }
}

/// Tolerances that the user chose in place of the defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ChosenTolerance {
    /// `--rtol`.
    pub rtol: Option<f64>,
    /// `--atol`.
    pub atol: Option<f64>,
}

/// Unit roundoff of f32.
const F32: f64 = 1.0 / (1u64 << 24) as f64;
/// Unit roundoff of bf16.
const BF16: f64 = 1.0 / (1u64 << 8) as f64;
/// Relative error of a chain of exponentials and the like in f32: libraries differ by a few ulp each, and an
/// exponential multiplies the relative error of its argument by the argument.
const TRANSCENDENTAL: f64 = 1e-5;

/// Stages of intermediate roundings that count.
const MAX_STAGES: usize = 9;

/// The roundings of a kernel, as far as its operations show them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Arithmetic {
    /// Operations that add, subtract or reduce floats.
    sums: usize,
    /// Whether it computes exponentials, logarithms, trigonometric functions or roots.
    transcendental: bool,
    /// Whether it computes trigonometric functions.
    trigonometric: bool,
    /// Whether it multiplies matrices.
    multiplies: bool,
    /// Terms of the longest reduction.
    terms: usize,
    /// Unit roundoff of the coarsest intermediate float type; 0 if all are f32.
    intermediate: f64,
    /// Operations that round to such a type.
    stages: usize,
}

impl Arithmetic {
    /// Reads the operations of a kernel and of the module around it.
    pub(super) fn of<'m>(modules: impl IntoIterator<Item = &'m Module>) -> Self {
        let mut all = Self::default();
        for function in modules.into_iter().flat_map(|module| &module.functions) {
            all.add_function(function, |_| true);
        }
        all
    }

    /// Reads the operations that a result depends on.
    pub(super) fn reaching(flow: &Dataflow<'_>, result: usize) -> Self {
        let mut all = Self::default();
        for (function, ops) in flow.reaching(result) {
            all.add_function(function, |op| ops.contains(&std::ptr::from_ref(op)));
        }
        all
    }

    /// Whether it multiplies matrices.
    pub(super) fn multiplies(&self) -> bool {
        self.multiplies
    }

    fn add_function(&mut self, function: &Function, counts: impl Fn(&Op) -> bool) {
        let mut computed = HashSet::new();
        function.walk(&mut |op| {
            if !matches!(op_kind(&op.name), Some(OpKind::Store | OpKind::Yield)) {
                computed.extend(op.operands.iter().copied());
            }
        });
        function.walk(&mut |op| {
            if !counts(op) {
                return;
            }
            let result = op.results.first().map(|&value| function.ty(value));
            let feeds_others = op.results.iter().any(|value| computed.contains(value));
            self.add(op, result, feeds_others);
            self.add_reduction(op, function);
            let kind = op_kind(&op.name);
            let multiplies = matches!(kind, Some(OpKind::Matmul | OpKind::Accumulate));
            self.multiplies |= multiplies || op.name.contains(".dot");
            if (multiplies || kind == Some(OpKind::PushWeights)) && rounds_operands(op, function) {
                self.round(BF16);
            }
        });
    }

    fn add(&mut self, op: &Op, result: Option<&Type>, feeds_others: bool) {
        let short = op.name.rsplit('.').next().unwrap_or_default();
        let is_float = |ty: &Type| matches!(Element::of(ty), Some(Element::Float(_)));
        let computes_floats = result.is_some_and(is_float);
        let is_math = op.name.starts_with("math.") && !EXACT_MATH.contains(&short);
        self.transcendental |= computes_floats && (is_math || TRANSCENDENTAL_OPS.contains(&short));
        self.trigonometric |= computes_floats && TRIGONOMETRIC.contains(&short);
        self.sums += usize::from(computes_floats && SUMS.contains(&short));
        let rounds = is_math || ROUNDED.contains(&short) || NARROWING.contains(&short) && feeds_others;
        if let Some(Element::Float(float)) = result.and_then(Element::of).filter(|_| rounds) {
            self.round(intermediate_roundoff(float));
        }
    }

    /// Counts an operation that rounds an intermediate.
    fn round(&mut self, roundoff: f64) {
        self.intermediate = self.intermediate.max(roundoff);
        self.stages += usize::from(roundoff > 0.0);
    }

    fn add_reduction(&mut self, op: &Op, function: &Function) {
        // Minima and maxima do not round.
        let adds = |kind: &Attr| ["add", "mul", "sum"].iter().any(|sum| kind.to_string().contains(sum));
        let is_reduction =
            REDUCTIONS.iter().any(|name| op.name == *name) && op.attributes.get("kind").is_none_or(adds);
        if let (true, Some(&from), Some(&to)) = (is_reduction, op.operands.first(), op.results.first()) {
            self.sums += 1;
            let elements = |ty: &Type| ty.shape().iter().fold(1usize, |all, &e| all.saturating_mul(e)).max(1);
            self.terms = self.terms.max(elements(function.ty(from)) / elements(function.ty(to)));
        }
    }

    /// The default tolerance for a result of this type and magnitude. `products` is the number of
    /// multiply-adds per element in matmuls.
    pub(super) fn tolerance(&self, element: Element, products: f64, scale: &Scale) -> Tolerance {
        let Element::Float(float) = element else { return Tolerance { rtol: 0.0, atol: 0.0 } };
        // Rounding the same number twice may differ by one ulp, at most 2 u of the number.
        let mut rtol = if float == Float::F32 { 4.0 * F32 } else { 2.0 * roundoff(float) };
        let mut atol = 0.0;
        if self.transcendental {
            rtol += TRANSCENDENTAL;
            atol += 16.0 * F32 * scale.max;
        }
        if self.trigonometric {
            // A roundoff of a large angle is an absolute error of the sine.
            atol += TRANSCENDENTAL * scale.max;
        }
        if self.sums > 0 || products > 0.0 {
            // Another order of a sum changes it by the roundoff of its partial sums, which add up like a
            // random walk.
            let walk = 4.0 * (self.terms as f64).sqrt() + 2.0 * products.sqrt();
            // The sum of two terms has no other order, but it may cancel.
            let base = if self.terms > 1 || products > 0.0 { 16.0 } else { 4.0 * self.sums.min(4) as f64 };
            atol += (base + walk) * F32 * scale.max;
        }
        // The expected result may have been computed without the kernel's intermediate roundings, whose
        // errors are independent. Unrolled loops repeat operations without adding stages.
        let stages = (self.stages.clamp(1, MAX_STAGES) as f64).sqrt();
        rtol += 2.0 * self.intermediate;
        atol += 3.0 * stages * self.intermediate * scale.rms.max(scale.max / 4.0);
        Tolerance { rtol, atol }
    }
}

/// Magnitude of the finite expected elements.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Scale {
    /// The largest.
    pub max: f64,
    /// Root mean square.
    pub rms: f64,
}

impl Scale {
    /// Measures the elements.
    pub(super) fn of(values: &[f64]) -> Self {
        let finite = || values.iter().filter(|value| value.is_finite());
        let max = finite().fold(0f64, |most, value| most.max(value.abs()));
        // Divided by the largest, so that no square overflows.
        let part = |value: &f64| if max > 0.0 { (value / max).powi(2) } else { 0.0 };
        let mean = finite().map(part).sum::<f64>() / finite().count().max(1) as f64;
        Self { max, rms: max * mean.sqrt() }
    }
}

/// Operations of `math` that round like an addition, or not at all.
const EXACT_MATH: [&str; 13] = [
    "absf",
    "absi",
    "ceil",
    "floor",
    "round",
    "roundeven",
    "trunc",
    "fma",
    "copysign",
    "ctpop",
    "ctlz",
    "isnan",
    "isfinite",
];
const TRANSCENDENTAL_OPS: [&str; 16] = [
    "exponential",
    "exponential_minus_one",
    "log",
    "log_plus_one",
    "logistic",
    "tanh",
    "sine",
    "cosine",
    "tan",
    "power",
    "rsqrt",
    "sqrt",
    "cbrt",
    "erf",
    "atan2",
    "reciprocal",
];
const TRIGONOMETRIC: [&str; 5] = ["sin", "cos", "tan", "sine", "cosine"];
const SUMS: [&str; 8] = ["addf", "subf", "add", "subtract", "fma", "reduce", "scan", "reduce_window"];
/// Arithmetic that rounds to its result type.
const ROUNDED: [&str; 9] = ["addf", "subf", "mulf", "divf", "add", "subtract", "multiply", "divide", "fma"];
/// Conversions to a narrower float type.
const NARROWING: [&str; 4] = ["truncf", "convert", "fptofp", "stochastic_convert"];
const REDUCTIONS: [&str; 5] =
    ["vector.multi_reduction", "vector.reduction", "tpu.all_reduce", "stablehlo.reduce", "tpu.reduce"];

/// Whether the MXU rounds f32 operands to bf16.
fn rounds_operands(op: &Op, function: &Function) -> bool {
    let is_f32 = |&value| *function.ty(value).element() == Type::Float(Float::F32);
    let asks_for_more = |attr: &Attr| attr.to_string().contains("fp32");
    op.operands.iter().take(2).any(is_f32) && !op.attributes.get("precision").is_some_and(asks_for_more)
}

/// Half the distance of neighbouring numbers near 1.
fn roundoff(float: Float) -> f64 {
    match float {
        Float::F32 => F32,
        Float::F16 => 2f64.powi(-11),
        Float::Bf16 => BF16,
        Float::F8E4M3FN => 2f64.powi(-4),
        Float::F8E5M2 => 2f64.powi(-3),
    }
}

/// Roundoff of an intermediate. Quantization to fp8 is part of what such a kernel computes: the expected
/// result rounds in the same way, and only ties may go the other way.
fn intermediate_roundoff(float: Float) -> f64 {
    match float {
        Float::F32 => 0.0,
        Float::F8E4M3FN | Float::F8E5M2 => 2.0 * BF16,
        other => roundoff(other),
    }
}

#[cfg(test)]
mod tests {
    use octile_mosaic::parse;

    use super::*;

    const WIDE: Element = Element::Float(Float::F32);
    const UNIT: Scale = Scale { max: 1.0, rms: 1.0 };

    /// Tolerance of a kernel with this operation on `%x`, a vector of f32.
    fn tolerance(op: &str) -> Tolerance {
        let text = format!(
            "func.func @f(%x: vector<8x128xf32>, %m: memref<8x128xbf16>, %i: index) {{\n  {op}\n  return\n}}"
        );
        Arithmetic::of([&parse(&text).expect("the test is valid")]).tolerance(WIDE, 0.0, &UNIT)
    }

    #[test]
    fn copies_are_held_to_the_last_bits_and_sums_to_their_order() {
        let copied = tolerance("");
        assert_eq!((copied.rtol, copied.atol), (4.0 * F32, 0.0));
        let sum = tolerance("%0 = arith.addf %x, %x : vector<8x128xf32>");
        assert_eq!((sum.rtol, sum.atol), (copied.rtol, 4.0 * F32));
    }

    #[test]
    fn exponentials_are_held_to_a_hundred_thousandth() {
        let exp = tolerance("%0 = math.exp %x : vector<8x128xf32>");
        assert!(exp.rtol > 1e-5 && exp.rtol < 2e-5 && exp.atol < 1e-5, "{exp:?}");
        let floor = tolerance("%0 = math.floor %x : vector<8x128xf32>");
        assert_eq!(floor, tolerance(""));
    }

    #[test]
    fn only_roundings_that_feed_other_operations_are_intermediate() {
        let narrow = "%0 = arith.truncf %x : vector<8x128xf32> to vector<8x128xbf16>";
        let stored =
            format!("{narrow}\n  vector.store %0, %m[%i, %i] : memref<8x128xbf16>, vector<8x128xbf16>");
        assert_eq!(tolerance(&stored), tolerance(""));
        let used = format!("{narrow}\n  %1 = arith.extf %0 : vector<8x128xbf16> to vector<8x128xf32>");
        let used = tolerance(&used);
        assert!(used.rtol > 5e-3 && used.atol > 5e-3 && used.atol < 5e-2, "{used:?}");
    }

    #[test]
    fn integers_have_no_tolerance() {
        let tolerance = Arithmetic::default().tolerance(Element::Integer(4), 1e6, &UNIT);
        assert_eq!((tolerance.rtol, tolerance.atol), (0.0, 0.0));
    }

    #[test]
    fn scales_do_not_overflow() {
        let scale = Scale::of(&[1e300, -1e300, f64::INFINITY, f64::NAN]);
        assert_eq!((scale.max, scale.rms), (1e300, 1e300));
        assert_eq!(Scale::of(&[]), Scale::default());
    }
}
