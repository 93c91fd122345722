//! Moving much data through the registers once: vector accesses that say how long a line is worth keeping, and
//! arithmetic on two 16-bit floats at a time.

use octile_core::FloatKind;
pub use octile_core::plan::hopper::CachePriority;

use super::{B32, B64, F32, Global, Pred, Ptx};

/// [`CachePriority`] as instructions take it.
#[derive(Clone, Copy, Debug)]
pub struct Policy(Option<B64>);

impl Policy {
    pub(super) fn suffix(self) -> &'static str {
        if self.0.is_some() { ".L2::cache_hint" } else { "" }
    }

    pub(super) fn operand(self) -> String {
        self.0.map_or_else(String::new, |policy| format!(", {policy}"))
    }
}

impl Ptx {
    /// A policy for loads or stores.
    pub fn policy(&mut self, keep: CachePriority) -> Policy {
        let name = match keep {
            CachePriority::Normal => return Policy(None),
            CachePriority::EvictFirst => "evict_first",
            CachePriority::EvictLast => "evict_last",
        };
        let out = self.b64();
        self.line(format_args!("createpolicy.fractional.L2::{name}.b64 {out}, 1.0"));
        Policy(Some(out))
    }

    /// Loads 16 bytes that no one writes meanwhile and that are not read again, where the predicate holds; else 0.
    pub fn stream_load_16_if(&mut self, at: Global, predicate: Pred, policy: Policy) -> [B32; 4] {
        let out = [(); 4].map(|()| self.variable(0));
        let [a, b, c, d] = out;
        self.line(format_args!(
            "@{predicate} ld.global.nc.L1::no_allocate{}.v4.b32 {{{a}, {b}, {c}, {d}}}, {at}{}",
            policy.suffix(),
            policy.operand()
        ));
        out
    }

    /// Stores 4 or 8 bytes where the predicate holds.
    pub fn stream_store_if(&mut self, at: Global, values: &[B32], predicate: Pred, policy: Policy) {
        let (suffix, operand) = (policy.suffix(), policy.operand());
        match values {
            [one] => self.line(format_args!("@{predicate} st.global{suffix}.b32 {at}, {one}{operand}")),
            [low, high] => self
                .line(format_args!("@{predicate} st.global{suffix}.v2.b32 {at}, {{{low}, {high}}}{operand}")),
            _ => unreachable!("codes are stored 4 or 8 at a time"),
        }
    }

    /// The larger magnitudes of two pairs of 16-bit floats. Their signs mean nothing.
    pub fn max_abs_pairs(&mut self, kind: FloatKind, a: B32, b: B32) -> B32 {
        let out = self.b32();
        let kind = match kind {
            FloatKind::Bf16 => "bf16x2",
            FloatKind::F16 => "f16x2",
            FloatKind::F32 => unreachable!("32-bit floats do not come in pairs"),
        };
        self.line(format_args!("max.xorsign.abs.{kind} {out}, {a}, {b}"));
        out
    }

    /// The bits as a float.
    pub fn as_float(&mut self, bits: B32) -> F32 {
        let out = self.f32();
        self.line(format_args!("mov.b32 {out}, {bits}"));
        out
    }

    /// `a * b + c`, rounded once.
    pub fn fma(&mut self, a: F32, b: F32, c: F32) -> F32 {
        let out = self.f32();
        self.line(format_args!("fma.rn.f32 {out}, {a}, {b}, {c}"));
        out
    }

    /// `1 / value`, off by one unit in the last place at most.
    pub fn rough_reciprocal(&mut self, value: F32) -> F32 {
        let out = self.f32();
        self.line(format_args!("rcp.approx.ftz.f32 {out}, {value}"));
        out
    }

    /// `-value`
    pub fn negate(&mut self, value: F32) -> F32 {
        let out = self.f32();
        self.line(format_args!("neg.f32 {out}, {value}"));
        out
    }

    /// `a < b`
    pub fn lt_f32(&mut self, a: F32, b: F32) -> Pred {
        let out = self.pred();
        self.line(format_args!("setp.lt.f32 {out}, {a}, {b}"));
        out
    }

    /// The largest value of `lanes` neighbouring lanes, in each of them. For floats that are not negative.
    pub fn max_of_lanes(&mut self, value: F32, lanes: u32) -> F32 {
        let mut max = value;
        for mask in lane_masks(lanes) {
            let other = self.f32();
            self.line(format_args!("shfl.sync.bfly.b32 {other}, {max}, {mask}, 31, -1"));
            max = self.max_f32(max, other);
        }
        max
    }

    /// The same for pairs of 16-bit floats, by magnitude.
    pub fn max_abs_pairs_of_lanes(&mut self, kind: FloatKind, value: B32, lanes: u32) -> B32 {
        let mut max = value;
        for mask in lane_masks(lanes) {
            let other = self.shuffle_xor(max, mask);
            max = self.max_abs_pairs(kind, max, other);
        }
        max
    }

    /// `a * b >> 32`, unsigned.
    pub fn mul_high(&mut self, a: B32, b: B32) -> B32 {
        let out = self.b32();
        self.line(format_args!("mul.hi.u32 {out}, {a}, {b}"));
        out
    }
}

/// The lanes to exchange with, so that `lanes` neighbours know of one another.
fn lane_masks(lanes: u32) -> impl Iterator<Item = u32> {
    (0..lanes.ilog2()).map(|bit| 1 << bit)
}
