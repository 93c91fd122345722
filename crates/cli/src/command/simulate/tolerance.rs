//! How far a result may be from the expected one, by what the kernel computes.

use std::collections::HashSet;

use octile_mosaic::{
    Attr, Float, Function, Module, Op, Type,
    interpret::{Element, OpKind, op_kind},
};
use serde::Serialize;

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

/// The roundings of a kernel, as far as its operations show them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Arithmetic {
    /// Whether floats are added, subtracted or reduced.
    sums: bool,
    /// Whether it computes exponentials, logarithms, trigonometric functions or roots.
    transcendental: bool,
    /// Terms of the longest reduction.
    terms: usize,
    /// Unit roundoff of the coarsest intermediate float type; 0 if all are f32.
    intermediate: f64,
}

impl Arithmetic {
    /// Reads the operations of a kernel and of the module around it.
    pub(super) fn of<'m>(modules: impl IntoIterator<Item = &'m Module>) -> Self {
        let mut all = Self::default();
        for function in modules.into_iter().flat_map(|module| &module.functions) {
            all.add_function(function);
        }
        all
    }

    fn add_function(&mut self, function: &Function) {
        let mut computed = HashSet::new();
        function.walk(&mut |op| {
            if !matches!(op_kind(&op.name), Some(OpKind::Store | OpKind::Yield)) {
                computed.extend(op.operands.iter().copied());
            }
        });
        function.walk(&mut |op| {
            let result = op.results.first().map(|&value| function.ty(value));
            let feeds_others = op.results.iter().any(|value| computed.contains(value));
            self.add(op, result, feeds_others);
            self.add_reduction(op, function);
            if op_kind(&op.name) == Some(OpKind::Matmul) && rounds_operands(op, function) {
                self.intermediate = self.intermediate.max(BF16);
            }
        });
    }

    fn add(&mut self, op: &Op, result: Option<&Type>, feeds_others: bool) {
        let short = op.name.rsplit('.').next().unwrap_or_default();
        let is_float = |ty: &Type| matches!(Element::of(ty), Some(Element::Float(_)));
        let computes_floats = result.is_some_and(is_float);
        let is_math = op.name.starts_with("math.") && !EXACT_MATH.contains(&short);
        self.transcendental |= computes_floats && (is_math || TRANSCENDENTAL_OPS.contains(&short));
        self.sums |= computes_floats && SUMS.contains(&short);
        let rounds = is_math || ROUNDED.contains(&short) || NARROWING.contains(&short) && feeds_others;
        if let Some(Element::Float(float)) = result.and_then(Element::of).filter(|_| rounds) {
            self.intermediate = self.intermediate.max(intermediate_roundoff(float));
        }
    }

    fn add_reduction(&mut self, op: &Op, function: &Function) {
        // Minima and maxima do not round.
        let adds = |kind: &Attr| ["add", "mul", "sum"].iter().any(|sum| kind.to_string().contains(sum));
        let is_reduction =
            REDUCTIONS.iter().any(|name| op.name == *name) && op.attributes.get("kind").is_none_or(adds);
        if let (true, Some(&from), Some(&to)) = (is_reduction, op.operands.first(), op.results.first()) {
            self.sums = true;
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
        if self.sums || products > 0.0 {
            // Another order of a sum changes it by the roundoff of its partial sums, which add up like a
            // random walk.
            let walk = 4.0 * (self.terms as f64).sqrt() + 2.0 * products.sqrt();
            atol += (8.0 + walk) * F32 * scale.max;
        }
        // The expected result may have been computed without the kernel's intermediate roundings.
        rtol += 2.0 * self.intermediate;
        atol += 3.0 * self.intermediate * scale.rms.max(scale.max / 4.0);
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
